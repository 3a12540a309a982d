"""HTML and XML over HTTP: LibreTranslate's `format`, and our own."""

import pytest
from fastapi.testclient import TestClient

from tests.translation.likely import sentences
from transduce.translation.options import Options
from transduce.translation.translator import Translator

FIRST, SECOND = sentences(2)
PAGE = f"<div><p>{FIRST}</p>\n<p>{SECOND} <b>Now</b> &amp; then.</p></div>"
ENGLISH = {"source": "en", "target": "de"}


def test_libretranslates_format_keeps_markup(client: TestClient, translator: Translator) -> None:
    [expected] = translator.translate([PAGE], format="html")
    body = {"q": PAGE, **ENGLISH, "format": "html", "api_key": ""}
    assert client.post("/translate", json=body).json() == {"translatedText": expected.text}
    assert client.post("/translate", data=body).json() == {"translatedText": expected.text}
    several = client.post("/translate", json=body | {"q": [PAGE, "<br>", ""]}).json()
    assert several == {"translatedText": [expected.text, "<br>", ""]}


def test_alternatives_have_the_markup_too(client: TestClient, translator: Translator) -> None:
    body = {"q": PAGE, **ENGLISH, "format": "html", "alternatives": 1}
    answer = client.post("/translate", json=body).json()
    [expected] = translator.translate([PAGE], Options(n_best=2), format="html")
    texts = [one.text for one in expected.alternatives]
    assert [answer["translatedText"], *answer["alternatives"]] == texts
    assert all(text.count("<b>") == text.count("</b>") == 1 for text in texts)


def test_our_api_returns_the_document_and_its_texts(
    client: TestClient, translator: Translator
) -> None:
    for form in ("html", "xml"):
        answer = client.post("/v1/translate", json={"text": PAGE, "format": form}).json()
        [expected] = translator.translate([PAGE], format=form)
        [found] = answer["translations"]
        assert found["text"] == expected.text
        assert [line["source"] for line in found["lines"]] == [
            FIRST,
            f"{SECOND} <b>Now</b> &amp; then.",
        ]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"text": "<a>", "format": "xml"}, 400, "never closed"),
        ({"text": "a", "format": "pdf"}, 422, "format"),
        ({"text": "a", "format": "html", "alignment": True}, 422, "alignment"),
        ({"text": "a<br>" * 1_001, "format": "html"}, 413, "1,001 texts between tags"),
    ],
)
def test_what_cannot_be_is_refused(
    client: TestClient, body: dict[str, object], status: int, message: str
) -> None:
    response = client.post("/v1/translate", json=body)
    assert response.status_code == status, response.text
    assert message in response.json()["error"]


def test_other_formats_are_refused_as_libretranslate_refuses(client: TestClient) -> None:
    response = client.post("/translate", json={"q": "a", **ENGLISH, "format": "markdown"})
    assert response.status_code == 400
    assert "html" in response.json()["error"]


@pytest.mark.parametrize("text", ["<" * 9_999, "<b>" * 3_333, "<b>a " * 1_900, "&#x" * 3_000])
def test_hostile_documents_are_answered(client: TestClient, text: str) -> None:
    response = client.post("/translate", json={"q": text, **ENGLISH, "format": "html"})
    assert response.status_code in (200, 413), response.text
