"""Pages of other sites and foreign host names are refused, unless they are named."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.serving.conftest import EN_DE
from tests.serving.fakes import Shouting, as_translator
from transduce.serving.app import make_app
from transduce.serving.http.sites import Sites
from transduce.serving.keys import Keys
from transduce.serving.limits import Limits

EVIL = "https://evil.example"
FORM = {"q": "a", "source": "en", "target": "de"}
TEXT = {"Content-Type": "text/plain"}
ATTENTION = {"text": "a", "source": "en", "target": "de"}


def make_client(**options: Any) -> TestClient:
    return TestClient(
        make_app({EN_DE: as_translator(Shouting())}, version="1", **options),
        base_url="http://127.0.0.1:8000",
    )


@pytest.fixture
def local() -> Iterator[TestClient]:
    with make_client() as client:
        yield client


@pytest.mark.parametrize("origin", [EVIL, "null", "http://127.0.0.1:9000", "http://localhost"])
@pytest.mark.parametrize(
    ("path", "form"), [("/translate", FORM), ("/detect", FORM), ("/attention", ATTENTION)]
)
def test_a_form_of_another_site_is_refused(
    local: TestClient, path: str, form: dict[str, str], origin: str
) -> None:
    response = local.post(path, data=form, headers={"Origin": origin})
    assert response.status_code == 403
    assert "--allow-origin" in response.json()["error"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://127.0.0.1:8000"},
        {"Origin": "https://translate.example", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "https://translate.example", "X-Forwarded-Host": "translate.example"},
        {"Origin": "moz-extension://1234"},
    ],
)
def test_our_own_page_programs_and_extensions_are_answered(
    local: TestClient, headers: dict[str, str]
) -> None:
    response = local.post("/translate", data=FORM, headers=headers)
    assert response.json() == {"translatedText": "A"}


def test_browsers_say_to_us_alone_where_a_form_comes_from(local: TestClient) -> None:
    # With no-referrer they would send "Origin: null" with the form of our own page.
    assert local.get("/").headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize("path", ["/translate", "/detect", "/v1/translate", "/v1/stream"])
def test_a_body_that_is_neither_json_nor_a_form_is_refused(local: TestClient, path: str) -> None:
    content = b'{"q": "a", "text": "a", "source": "en", "target": "de"}'
    response = local.post(path, content=content, headers={"Content-Type": "text/plain"})
    assert response.status_code == 415
    assert "Content-Type" in response.json()["error"]


def test_a_form_is_no_request_of_our_own_api(local: TestClient) -> None:
    assert local.post("/v1/translate", data={"text": "a"}).status_code == 415


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8000", "evil.example."])
def test_a_foreign_host_name_is_refused(local: TestClient, host: str) -> None:
    for path in ("/", "/languages", "/v1/models"):
        response = local.get(path, headers={"Host": host})
        assert response.status_code == 421
        assert "--allow-host" in response.json()["error"]
    assert local.get("/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["localhost:8000", "[::1]:8000", "192.168.1.2", "gpu1", "a.localhost"]
)
def test_addresses_and_local_names_are_answered(local: TestClient, host: str) -> None:
    assert local.get("/languages", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "options",
    [
        {"sites": Sites(hosts=["Translate.example"])},
        {"sites": Sites(hosts=["*"])},
        {"sites": Sites(["*"])},
        {"keys": Keys(["sesame"])},
    ],
)
def test_a_host_name_is_answered_if_it_is_named_or_with_keys(options: dict[str, Any]) -> None:
    with make_client(**options) as client:
        head = {"Host": "translate.example:443"}
        assert client.get("/languages", headers=head).status_code == 200


def test_no_answer_redirects_to_the_host_of_the_request(local: TestClient) -> None:
    response = local.get("/docs/", headers={"Host": "gpu1"}, follow_redirects=False)
    assert (response.status_code, "location" in response.headers) == (404, False)


def test_a_named_site_may_read_refusals_too() -> None:
    sites = Sites(["https://site.example/"])
    limits = Limits(max_body_bytes=100, max_bytes_in_flight=50)
    with make_client(sites=sites, limits=limits) as client:
        named = {"Origin": "https://site.example"}
        for size, status in ((200, 413), (80, 429), (10, 415)):
            response = client.post("/v1/translate", content=b"a" * size, headers=named | TEXT)
            assert response.status_code == status
            assert response.headers["access-control-allow-origin"] == named["Origin"]
            assert set(response.json()) == {"error"}


def test_the_servers_own_page_may_call_it_behind_a_proxy() -> None:
    with make_client(sites=Sites(hosts=["translate.lan:8000"])) as client:
        named = client.post("/translate", data=FORM, headers={"Origin": "http://translate.lan"})
        assert named.status_code == 200
        host = {"Host": "translate.lan."}
        assert client.get("/languages", headers=host).status_code == 200
    with make_client(sites=Sites(has_keys=True)) as client:
        with_port = {"Origin": "http://x.lan", "Host": "x.lan:80"}
        assert client.post("/translate", data=FORM, headers=with_port).status_code == 200


def test_an_origin_that_is_none_is_refused(local: TestClient) -> None:
    response = local.post("/translate", data=FORM, headers={"Origin": "http://["})
    assert response.status_code == 403
