"""Files through the server, as LibreTranslate's clients send and fetch them."""

import asyncio
from collections.abc import Iterator
from threading import Event
from urllib.parse import urlsplit

import pytest
from fastapi.testclient import TestClient

from tests.serving.fakes import Running, Shouting, as_translator
from tests.translation.documents.samples import FILES, archive, members, translated
from transduce.serving.app import make_app
from transduce.serving.http.held_files import HeldFiles
from transduce.serving.keys import Keys
from transduce.serving.languages import LanguagePair
from transduce.serving.limits import Limits
from transduce.serving.refusal import Refused
from transduce.serving.service import Service
from transduce.serving.text_thread import MAX_LATE, FileThread

EN_DE = LanguagePair("en", "de")
FIELDS = {"source": "en", "target": "de"}
LIMITS = Limits(max_file_bytes=20_000, max_file_characters=2_000)


@pytest.fixture(scope="module")
def shouting() -> Iterator[TestClient]:
    app = make_app({EN_DE: as_translator(Shouting())}, version="1", limits=LIMITS)
    with TestClient(app) as client:
        yield client


def fetched(client: TestClient, url: str) -> bytes:
    response = client.get(urlsplit(url).path)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/octet-stream"
    assert response.headers["content-disposition"].startswith("attachment; filename*=UTF-8''a.")
    return response.content


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_each_format_comes_back_translated(shouting: TestClient, name: str) -> None:
    sent = {"file": (name, FILES[name])}
    response = shouting.post("/translate_file", data=FIELDS, files=sent)
    assert response.status_code == 200, response.text
    url = response.json()["translatedFileUrl"]
    assert url.startswith("http://testserver/download_file/")
    found, expected = fetched(shouting, url), translated(FILES[name], name, str.upper)
    assert (members(found) == members(expected)) if found[:2] == b"PK" else found == expected


@pytest.mark.parametrize(
    ("name", "content", "status", "said"),
    [
        ("a.docx", b"no zip", 400, "ZIP"),
        ("a.docx", archive({"../x": b""}), 400, "leads out"),
        ("a.docm", FILES["a.docx"], 400, "macros"),
        ("a.exe", b"MZ", 400, "not translated"),
        ("a.xlf", b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', 400, "entity"),
        ("a.txt", b"\xff\xfe\xff", 400, "utf-16"),
        ("a.txt", b"a" * 40_000, 413, "bytes"),
        ("a.txt", b"word " * 1_000, 413, "characters"),
        ("", b"a", 400, "name"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    shouting: TestClient, name: str, content: bytes, status: int, said: str
) -> None:
    response = shouting.post("/translate_file", data=FIELDS, files={"file": (name, content)})
    assert response.status_code == status
    assert list(response.json()) == ["error"]
    assert said in response.json()["error"]
    assert "\n" not in response.json()["error"]


def test_fields_that_lack_or_name_other_languages_are_400(shouting: TestClient) -> None:
    for fields in ({"source": "en"}, {"source": "en", "target": "fr"}):
        sent = {"file": ("a.txt", b"word")}
        assert shouting.post("/translate_file", data=fields, files=sent).status_code == 400
    assert shouting.post("/translate_file", data=FIELDS).status_code == 400
    assert shouting.post("/translate_file", json=FIELDS).status_code == 415
    fields = {**FIELDS, "file": "text"}
    as_form = {name: (None, value) for name, value in fields.items()}
    assert shouting.post("/translate_file", files=as_form).status_code == 400


def test_a_key_is_needed_to_send_but_not_to_fetch() -> None:
    app = make_app({EN_DE: as_translator(Shouting())}, version="1", keys=Keys(["secret"]))
    with TestClient(app) as client:
        sent = {"file": ("a.txt", b"word")}
        assert client.post("/translate_file", data=FIELDS, files=sent).status_code == 403
        with_key = {**FIELDS, "api_key": "secret"}
        answer = client.post("/translate_file", data=with_key, files=sent).json()
        assert fetched(client, answer["translatedFileUrl"]) == b"WORD"
        assert client.get("/download_file/other.txt").status_code == 404
        assert client.get("/download_file/..%2f..%2fetc").status_code == 404


def test_more_files_at_a_time_than_allowed_are_refused() -> None:
    fake = as_translator(Shouting())
    service = Service({EN_DE: fake}, Running().batcher, Limits(max_files=1))
    with service.one_more_file(), pytest.raises(Refused) as refused, service.one_more_file():
        pass
    assert refused.value.status == 429
    with service.one_more_file():
        service.close()


def test_a_name_cannot_lead_anywhere(shouting: TestClient) -> None:
    sent = {"file": ("../../a b<>\u202e.txt", b"word")}
    url = shouting.post("/translate_file", data=FIELDS, files=sent).json()["translatedFileUrl"]
    disposition = shouting.get(urlsplit(url).path).headers["content-disposition"]
    assert disposition == "attachment; filename*=UTF-8''a%20b___.txt"


def test_files_are_held_for_a_time_and_within_a_size() -> None:
    now = 0.0
    held = HeldFiles(Limits(max_held_bytes=10, file_s=60), clock=lambda: now)
    first, second = held.add(b"12345", "a"), held.add(b"12345", "b")
    assert len({first, second}) == 2
    assert len(first) >= 43
    third = held.add(b"1", "c")
    assert held.get(first) is None
    assert held.get(second) is not None
    now = 61.0
    assert held.get(second) is held.get(third) is None
    assert held.get(held.add(b"x" * 11, "d")) is None


def test_slow_files_are_refused_and_do_not_stop_others() -> None:
    async def run() -> None:
        thread, go_on = FileThread(deadline_s=0.02), Event()
        for _ in range(MAX_LATE):
            with pytest.raises(Refused, match="not read within"):
                await thread.run(go_on.wait)
        assert await thread.run(str) == ""
        with pytest.raises(Refused, match="not read within"):
            await thread.run(go_on.wait)
        with pytest.raises(Refused, match="too busy"):
            await thread.run(str)
        go_on.set()
        thread.close()

    asyncio.run(run())
