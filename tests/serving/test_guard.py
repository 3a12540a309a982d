"""Any request gets a response, within limits and with security headers."""

import json
import re

import pytest
from fastapi.testclient import TestClient

from tests.serving.conftest import EN_DE
from transduce.serving.app import make_app
from transduce.serving.http.sites import Sites
from transduce.serving.limits import Limits
from transduce.translation.translator import Translator

HOSTILE_TEXTS = [
    "\x00\x01\x02\x1b[31m\x7f",
    "\u202e\u2066\ufeff\u0000",
    "a" * 300,
    "!" * 300,
    "𝕳" * 60,
    "\n" * 999,
    "\u2028\u0085\x0b\x0c\r",
    "< eos > < bos > < pad >",
    "<script>alert(1)</script>",
    "\ud800",
    " " * 9_999,
]
HOSTILE_BODIES = [
    b"",
    b"{",
    b"null",
    b"[" * 500_000,
    b'{"q":' * 100_000,
    b'{"text": ' + b"9" * 5_000 + b"}",
    b'{"text": NaN, "q": Infinity}',
    b"\xff\xfe\x00",
    b'{"text": "\\ud800", "q": "\\udfff"}',
    b'{"text": {"a": []}, "q": 1e999, "source": [], "target": {}}',
    b'{"text": "a", "text": ["b", null], "q": [null]}',
    b'{"\\ud800": 1}',
    b"q=%ff%fe&source=%00&target=en&" + b"a=1&" * 5_000,
    b'--x\r\nContent-Disposition: form-data; name="q"; filename="f"\r\n\r\nhello\r\n--x--\r\n',
]
TYPES = [
    "application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "multipart/form-data",
    "text/plain",
    "application/json; charset=utf-7",
]


@pytest.mark.parametrize(
    "path", ["/translate", "/detect", "/v1/translate", "/v1/stream", "/attention"]
)
def test_no_body_breaks_the_server(client: TestClient, path: str) -> None:
    for kind in TYPES:
        for body in HOSTILE_BODIES:
            response = client.post(path, content=body, headers={"Content-Type": kind})
            assert response.status_code < 500, (kind, body[:40], response.text[:200])
    assert client.get("/health").status_code == 200


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_no_text_breaks_the_server(client: TestClient, text: str) -> None:
    for path, question in (
        ("/v1/translate", {"text": text}),
        ("/v1/stream", {"text": text}),
        ("/translate", {"q": text, "source": "en", "target": "de"}),
    ):
        content = json.dumps(question).encode()
        response = client.post(path, content=content, headers={"Content-Type": "application/json"})
        assert response.status_code in (200, 400, 422), response.text


def test_a_body_over_the_limit_is_refused_with_and_without_its_length(
    translator: Translator,
) -> None:
    app = make_app({EN_DE: translator}, version="1", limits=Limits(max_body_bytes=100))
    with TestClient(app) as client:
        body = json.dumps({"text": "a" * 100}).encode()
        for content in (body, iter([body[:50], body[50:]])):  # an iterator is sent in chunks
            response = client.post("/v1/translate", content=content)
            assert response.status_code == 413
            assert response.headers["connection"] == "close"
            assert "100 bytes" in response.json()["error"]


def test_every_response_has_security_headers(client: TestClient) -> None:
    for response in (
        client.get("/"),
        client.get("/docs"),
        client.get("/health"),
        client.get("/nowhere"),
        client.delete("/translate"),
        client.post("/v1/translate", content=b"{"),
    ):
        policy = response.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["x-frame-options"] == "DENY"
        assert "access-control-allow-origin" not in response.headers
    assert client.get("/nowhere").json() == {"error": "Not Found"}


def test_pages_have_no_script_of_their_own_and_load_nothing_from_elsewhere(
    client: TestClient,
) -> None:
    for path in ("/", "/docs"):
        page = client.get(path).text
        assert not re.search(r"<script(?![^>]*src=\"/web/)|<style|\son\w+=|\sstyle=", page)
        for address in re.findall(r"(?:src|href|action)=\"([^\"]*)\"", page):
            assert address.startswith("/")
            if address not in ("/attention", "/tree", "/metrics"):
                assert client.get(address).status_code == 200
    for path in ("/web/page.js", "/web/docs.js", "/web/page.css"):
        assert "://" not in client.get(path).text


def test_only_our_own_page_may_frame_the_attention_page(client: TestClient) -> None:
    form = {"text": "The king sleeps.", "source": "en", "target": "de"}
    response = client.post("/attention", data=form)
    assert response.status_code == 200
    assert "frame-ancestors 'self'" in response.headers["content-security-policy"]
    assert response.headers["x-frame-options"] == "SAMEORIGIN"
    assert "The king sleeps." in response.text
    refused = client.post("/attention", data=form | {"text": " "})
    assert refused.status_code == 400
    assert "there is no attention to show" in refused.text


def test_other_sites_may_call_only_if_they_are_named(
    translator: Translator, client: TestClient
) -> None:
    site = {"Origin": "https://site.example"}
    assert "access-control-allow-origin" not in client.get("/languages", headers=site).headers
    app = make_app({EN_DE: translator}, version="1", sites=Sites(["https://site.example"]))
    with TestClient(app) as named:
        response = named.get("/languages", headers=site)
        assert response.headers["access-control-allow-origin"] == "https://site.example"
        other = named.get("/languages", headers={"Origin": "https://other.example"})
        assert "access-control-allow-origin" not in other.headers


def test_metrics_count_requests_and_sentences_and_contain_no_text(translator: Translator) -> None:
    with TestClient(make_app({EN_DE: translator}, version="1")) as client:
        client.post("/v1/translate", json={"text": "secret\nwords"})
        client.get("/nowhere/secret")
        metrics = client.get("/metrics").text
    for row in (
        'transduce_requests_total{route="/v1/translate",status="200"} 1.0',
        'transduce_requests_total{route="other",status="404"} 1.0',
        'transduce_sentences_total{pair="en-de"} 2.0',
        "transduce_queue_sentences 0.0",
    ):
        assert row in metrics.splitlines()
    assert "secret" not in metrics
