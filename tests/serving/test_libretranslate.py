"""LibreTranslate's API, as its clients use it."""

from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient

from tests.translation.likely import sentences
from transduce.translation.options import Options
from transduce.translation.translator import Translator

FIRST, SECOND = sentences(2)
FORM = "application/x-www-form-urlencoded"
ENGLISH = {"source": "en", "target": "de"}


@pytest.fixture(scope="module")
def expected(translator: Translator) -> tuple[str, str]:
    first, second = (one.text for one in translator.translate([FIRST, SECOND]))
    return first, second


def test_json_and_both_kinds_of_form_are_understood(
    client: TestClient, expected: tuple[str, str]
) -> None:
    fields = {"q": FIRST, **ENGLISH}
    sent: list[dict[str, Any]] = [
        {"json": fields},
        {"json": fields | {"format": "text", "api_key": "", "alternatives": 0}},
        {"data": fields | {"api_key": ""}},
        {"files": {name: (None, value) for name, value in fields.items()}},  # multipart
        {"content": urlencode(fields), "headers": {"Content-Type": f"{FORM}; charset=utf-8"}},
    ]
    for body in sent:
        assert client.post("/translate", **body).json() == {"translatedText": expected[0]}


def test_several_texts_get_a_list(client: TestClient, expected: tuple[str, str]) -> None:
    answer = client.post("/translate", json={"q": [FIRST, SECOND], **ENGLISH}).json()
    assert answer == {"translatedText": list(expected)}
    assert client.post("/translate", json={"q": [], **ENGLISH}).json() == {"translatedText": []}
    assert client.post("/translate", json={"q": "", **ENGLISH}).json() == {"translatedText": ""}


def test_paragraphs_are_kept(client: TestClient, expected: tuple[str, str]) -> None:
    answer = client.post("/translate", json={"q": f"{FIRST}\n\n{SECOND}", **ENGLISH}).json()
    assert answer["translatedText"] == "\n\n".join(expected)


def test_alternatives_follow_the_best(client: TestClient, translator: Translator) -> None:
    answer = client.post("/translate", json={"q": FIRST, **ENGLISH, "alternatives": 2}).json()
    [expected] = translator.translate([FIRST], Options(n_best=3))
    best, *others = (one.text for one in expected.alternatives)
    assert (answer["translatedText"], answer["alternatives"]) == (best, others)


def test_no_language_is_reported_as_detected(client: TestClient) -> None:
    not_detected = {"language": "en", "confidence": 0}
    assert client.post("/detect", json={"q": "Wer weiß?"}).json() == [not_detected]
    body = {"q": FIRST, "source": "auto", "target": "de"}
    assert client.post("/translate", json=body).json()["detectedLanguage"] == not_detected
    several = client.post("/translate", json=body | {"q": [FIRST, SECOND]}).json()
    assert several["detectedLanguage"] == [not_detected] * 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"q": FIRST, "source": "en"}, "target"),
        ({"q": FIRST, "source": "en", "target": "fr"}, "en-de"),
        ({"q": FIRST, **ENGLISH, "format": "odt"}, "html"),
        ({"q": {"a": 1}, **ENGLISH}, "q"),
        ({"q": FIRST, **ENGLISH, "alternatives": 99}, "alternatives"),
        ([1], "object"),
    ],
)
def test_a_mistake_is_400_with_their_error(client: TestClient, body: object, message: str) -> None:
    response = client.post("/translate", json=body)
    assert response.status_code == 400
    assert list(response.json()) == ["error"]
    assert message in response.json()["error"]


def test_frontends_get_languages_health_and_settings(client: TestClient) -> None:
    languages = [{"code": "en", "name": "English", "targets": ["de"]}]
    assert client.get("/languages").json() == languages
    assert client.get("/health").json() == {"status": "ok"}
    settings = client.get("/frontend/settings").json()
    assert settings["charLimit"] == 10_000
    assert settings["language"]["target"] == {"code": "de", "name": "German"}
    assert settings["keyRequired"] is False
    assert settings["filesTranslation"] is True
    assert {".docx", ".odt", ".md", ".po"} <= set(settings["supportedFilesFormat"])
