"""Languages that are detected, and pairs that take two models."""

import json
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from tests.serving.fakes import Shouting, as_translator
from transduce.serving.app import make_app
from transduce.serving.languages import LanguagePair, Route, find_routes
from transduce.text.detection import LanguageDetector
from transduce.translation.options import Options, Translation

GERMAN = "Wer weiß, ob das Wetter morgen besser wird?"
FRENCH = "Je ne sais pas encore si nous viendrons demain."
ENGLISH = "Nobody knows what the weather will be like."
PAIRS = [LanguagePair(*pair.split("-")) for pair in ("de-en", "en-de", "en-fr", "fr-en")]


class Marking(Shouting):
    """Puts the languages of its model before each line."""

    def __init__(self, pair: LanguagePair) -> None:
        super().__init__()
        self.pair = pair

    def translate(self, lines: list[str], options: Options) -> list[Translation]:  # type: ignore[override]
        return super().translate([f"{self.pair.target}:{line}" for line in lines], options)


@pytest.fixture(scope="module")
def detector() -> LanguageDetector:
    return LanguageDetector()


@pytest.fixture
def client(detector: LanguageDetector) -> Iterator[TestClient]:
    models = {pair: as_translator(Marking(pair)) for pair in PAIRS}
    with TestClient(make_app(models, version="1", detector=detector)) as client:
        yield client


def translated(client: TestClient, **body: object) -> dict[str, object]:
    found = client.post("/translate", json=body).json()
    assert isinstance(found, dict)
    return found


def test_the_source_languages_are_ranked(client: TestClient) -> None:
    for text, code in ((GERMAN, "de"), (FRENCH, "fr"), (ENGLISH, "en")):
        first, *others = client.post("/detect", json={"q": text}).json()
        assert first["language"] == code
        assert first["confidence"] > 90
        assert {code, *(one["language"] for one in others)} == {"de", "en", "fr"}
    unknown = client.post("/detect", json={"q": "Погода завтра будет лучше."}).json()
    assert all(one["confidence"] < 1 for one in unknown)
    assert {one["confidence"] for one in client.post("/detect", json={"q": "12 %"}).json()} == {0}


def test_auto_detects_each_text(client: TestClient) -> None:
    one = translated(client, q=FRENCH, source="auto", target="en")
    assert one["translatedText"] == f"EN:{FRENCH.upper()}"
    assert one["detectedLanguage"]["language"] == "fr"  # type: ignore[index]
    assert "via" not in one
    several = translated(client, q=[GERMAN, FRENCH, GERMAN], source="auto", target="en")
    texts = [f"EN:{text.upper()}" for text in (GERMAN, FRENCH, GERMAN)]
    assert several["translatedText"] == texts
    assert [one["language"] for one in several["detectedLanguage"]] == ["de", "fr", "de"]  # type: ignore[attr-defined]


def test_text_in_the_target_language_stays_as_it_is(client: TestClient) -> None:
    one = translated(client, q=ENGLISH, source="auto", target="en", alternatives=2)
    assert (one["translatedText"], one["alternatives"]) == (ENGLISH, [])
    assert one["detectedLanguage"]["language"] == "en"  # type: ignore[index]
    several = translated(client, q=[GERMAN, ENGLISH], source="auto", target="en")
    assert several["translatedText"] == [f"EN:{GERMAN.upper()}", ENGLISH]
    named = translated(client, q=GERMAN, source="de", target="de")
    assert named == {"translatedText": GERMAN}
    unsure = translated(client, q="12 %", source="auto", target="en")
    assert unsure["translatedText"] == "EN:12 %"
    assert "error" in translated(client, q=GERMAN, source="xx", target="xx")


def test_text_in_a_language_that_none_translates_into_stays(detector: LanguageDetector) -> None:
    models = {PAIRS[1]: as_translator(Marking(PAIRS[1]))}  # en-de
    with TestClient(make_app(models, version="1", detector=detector)) as client:
        for source in ("en", "auto"):
            found = translated(client, q=ENGLISH, source=source, target="en")
            assert found["translatedText"] == ENGLISH
        unknown = client.post("/translate", json={"q": GERMAN, "source": "auto", "target": "en"})
        assert unknown.status_code == 400


@pytest.mark.parametrize(("source", "target"), [("de", "de"), ("auto", "en"), ("de", "en")])
def test_text_that_stays_is_checked_as_any_other(
    client: TestClient, source: str, target: str
) -> None:
    """Its beginning alone is looked at to detect the language."""
    languages = {"source": source, "target": target}
    long = client.post("/translate", json={"q": ENGLISH * 300} | languages)
    assert long.status_code == 413
    half = json.dumps({"q": f"{ENGLISH * 60} \ud800"} | languages)
    sent = client.post("/translate", content=half, headers={"Content-Type": "application/json"})
    assert sent.status_code == 400
    assert "surrogate" in sent.json()["error"]


def test_a_file_in_the_target_language_stays_as_it_is(client: TestClient) -> None:
    for source, text in (("auto", ENGLISH), ("en", GERMAN)):
        sent = client.post(
            "/translate_file",
            files={"file": ("a.txt", text)},
            data={"source": source, "target": "en"},
        )
        url = sent.json()["translatedFileUrl"]
        assert client.get(url.removeprefix("http://testserver")).text == text


def test_two_models_are_used_where_there_is_no_direct_one(client: TestClient) -> None:
    found = translated(client, q="Guten\n\nTag", source="de", target="fr")
    assert found["translatedText"] == "FR:EN:GUTEN\n\nFR:EN:TAG"
    assert found["via"] == "en"
    mixed = translated(client, q=[GERMAN, ENGLISH], source="auto", target="fr")
    assert mixed["via"] == ["en", None]
    languages = {one["code"]: one["targets"] for one in client.get("/languages").json()}
    assert languages == {"de": ["en", "fr"], "en": ["de", "fr"], "fr": ["de", "en"]}


def test_our_own_api_says_it_too_and_keeps_the_source(client: TestClient) -> None:
    found = client.post("/v1/translate", json={"text": GERMAN, "target": "fr"}).json()
    assert (found["source"], found["target"], found["via"]) == ("de", "fr", "en")
    [line] = found["translations"][0]["lines"]
    assert line["source"] == GERMAN
    direct = client.post("/v1/translate", json={"text": GERMAN, "target": "en"}).json()
    assert "via" not in direct
    rows = client.post("/v1/stream", json={"text": f"{FRENCH}\n{FRENCH}", "target": "de"}).text
    assert [json.loads(row)["source"] for row in rows.splitlines()] == [FRENCH, FRENCH]


@pytest.mark.parametrize("asked", [{"alignment": True}, {"terms": {"Tag": "jour"}}])
def test_what_needs_the_source_is_refused_through_another_language(
    asked: dict[str, object], client: TestClient
) -> None:
    body = {"text": GERMAN, "source": "de", "target": "fr", **asked}
    response = client.post("/v1/translate", json=body)
    assert response.status_code == 400
    assert "de-fr is translated through en, without alignment" in response.json()["error"]


def test_half_a_surrogate_pair_is_refused_before_it_is_detected(client: TestClient) -> None:
    content = b'{"q": "a \\ud800", "source": "auto", "target": "en"}'
    response = client.post("/translate", content=content)
    assert response.status_code == 400
    assert "surrogate" in response.json()["error"]


def test_routes_prefer_one_model_then_english() -> None:
    pairs = [LanguagePair(*pair.split("-")) for pair in ("a-b", "b-c", "a-en", "en-c", "c-a")]
    routes = find_routes(pairs)
    assert routes[LanguagePair("a", "b")] == Route((LanguagePair("a", "b"),))
    assert routes[LanguagePair("a", "c")].via == "en"
    assert routes[LanguagePair("b", "a")].via == "c"
    assert LanguagePair("a", "a") not in routes


def test_two_models_translate_documents_one_after_the_other(client: TestClient) -> None:
    page = "<ul><li>Guten <b>Tag</b></li><li>Danke</li></ul>"
    found = translated(client, q=page, source="de", target="fr", format="html")
    lines = "<li>FR:EN:GUTEN <B>TAG</B></li><li>FR:EN:DANKE</li>"
    assert (found["translatedText"], found["via"]) == (f"<ul>{lines}</ul>", "en")


def test_tags_do_not_count_when_a_language_is_detected(client: TestClient) -> None:
    page = f'<p title="{ENGLISH * 5}" class="nothing but words of this language">{FRENCH}</p>'
    found = translated(client, q=page, source="auto", target="en", format="html")
    assert found["detectedLanguage"]["language"] == "fr"  # type: ignore[index]
    as_text = translated(client, q=page, source="auto", target="de")
    assert as_text["detectedLanguage"]["language"] == "en"  # type: ignore[index]


def test_style_sheets_do_not_count_when_a_language_is_detected(client: TestClient) -> None:
    rule = "p { margin: 0 auto; color: red; background-color: white; }"
    page = f"<head><style>{rule * 50}</style></head><p>{GERMAN}</p>"
    found = translated(client, q=page, source="auto", target="en", format="html")
    assert found["detectedLanguage"]["language"] == "de"  # type: ignore[index]


@pytest.mark.parametrize("path", ["/translate", "/translate_file"])
def test_a_form_in_an_unknown_charset_is_refused(client: TestClient, path: str) -> None:
    form = 'multipart/form-data; boundary=x; charset="undefined"'
    body = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\na\r\n--x--\r\n'
    found = client.post(path, content=body, headers={"Content-Type": form})
    assert found.status_code == 400
