"""Glossaries, terms, forbidden words and placeholders over HTTP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi.testclient import TestClient

import transduce
from tests.serving.conftest import EN_DE
from tests.text.phrases.oracle import count_phrases
from tests.translation.likely import random_model, saved
from transduce.serving.app import make_app
from transduce.translation.memory.units import TranslationMemory
from transduce.translation.options import Options
from transduce.translation.translator import Translator
from transduce.translation.wording.read import as_glossary

SOURCE = "The dog eats {name}."


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    """A model with room for terms."""
    folder: Path = tmp_path_factory.mktemp("served") / "roomy"
    return transduce.load(saved(folder, random_model(seed=5, max_positions=90)), "cpu")


@pytest.fixture(scope="module")
def server(roomy: Translator) -> Iterator[TestClient]:
    glossaries = {"pets": as_glossary({"dog": "Hund"})}
    memories = {"old": TranslationMemory([("The cat sleeps.", "Die Katze schläft.")])}
    app = make_app({EN_DE: roomy}, version="1", glossaries=glossaries, memories=memories)
    with TestClient(app) as client:
        yield client


def text_for(server: TestClient, path: str = "/v1/translate", **body: object) -> str:
    response = server.post(path, json={"text": SOURCE, **body})
    assert response.status_code == 200, response.text
    answer = response.json()
    found: str = answer["translations"][0]["text"] if path == "/v1/translate" else answer["text"]
    return found


@pytest.mark.parametrize("path", ["/v1/translate", "/v1/stream"])
def test_a_request_may_name_a_glossary_or_bring_terms(server: TestClient, path: str) -> None:
    assert server.get("/v1/models").json()["glossaries"] == ["pets"]
    assert count_phrases(text_for(server, path, glossary="pets"), ["Hund"]) == 1
    own = text_for(server, path, glossary="pets", terms={"dog": ["Köter"], "eats": "="})
    assert count_phrases(own, ["Köter"]) >= 1
    assert count_phrases(own, ["eats"]) >= 1


def test_a_request_may_name_a_memory(server: TestClient) -> None:
    assert server.get("/v1/models").json()["memories"] == ["old"]
    body = {"text": "The cat sleeps.\nThe cat sleeps here.", "memory": "old"}
    [found] = server.post("/v1/translate", json=body).json()["translations"]
    same, similar = found["lines"]
    assert (same["text"], same["memory"]["is_used"]) == ("Die Katze schläft.", True)
    assert (similar["memory"]["score"], similar["memory"]["is_used"]) == (0.8, False)
    strict = server.post("/v1/translate", json=body | {"memory_threshold": 0.9}).json()
    assert "memory" not in strict["translations"][0]["lines"][1]
    unknown = server.post("/v1/translate", json=body | {"memory": "new"})
    assert unknown.status_code == 400
    assert unknown.json() == {"error": "unknown translation memory; this server has: old"}


def test_the_form_of_a_file_may_name_both(server: TestClient) -> None:
    def sent(**fields: str) -> Any:
        data = {"source": "en", "target": "de"} | fields
        files = {"file": ("a.txt", "The cat sleeps.\nA dog.\n")}
        return server.post("/translate_file", data=data, files=files).json()

    url = urlsplit(sent(glossary="pets", memory="old")["translatedFileUrl"])
    first, second = server.get(url.path).text.splitlines()
    assert first == "Die Katze schläft."
    assert count_phrases(second, ["Hund"]) == 1
    assert sent(glossary="pots") == {"error": "unknown glossary; this server has: pets"}
    assert sent(memory="new")["error"].startswith("unknown translation memory")


def test_the_response_is_what_the_translator_gives(server: TestClient, roomy: Translator) -> None:
    words = transduce.wording({"dog": "Hund"}, forbid=["der"], keep_placeholders=True)
    (expected,) = roomy.translate([SOURCE], Options(wording=words))
    found = text_for(server, glossary="pets", forbid=["der"], keep_placeholders=True)
    assert found == expected.text
    assert found.count("{name}") == 1


def test_terms_may_be_hints_to_a_model_that_learnt_them(tmp_path: Path, server: TestClient) -> None:
    model = saved(tmp_path / "model", random_model(seed=5, max_positions=90, term_markers=True))
    translator = transduce.load(model, "cpu")
    glossaries = {"pets": as_glossary({"dog": "Hund"})}
    with TestClient(make_app({EN_DE: translator}, version="1", glossaries=glossaries)) as client:
        found = text_for(client, glossary="pets", soft=True)
        alone = text_for(client, soft=True)
    expected = translator.translate([SOURCE], glossary={"dog": "Hund"}, soft=True)
    assert found == expected[0].text
    assert alone == translator.translate([SOURCE])[0].text != found
    refused = server.post("/v1/translate", json={"text": SOURCE, "terms": {"a": "b"}, "soft": True})
    assert "data.terms" in refused.json()["error"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"glossary": "unknown"}, 400),
        ({"terms": {"a": ""}, "forbid": ["a"], "text": "a"}, 400),
        ({"terms": {f"{n:050}": "x" * 50 for n in range(50)}}, 413),
        ({"terms": {str(n): "x" for n in range(201)}}, 422),
        ({"terms": {"a": "x" * 101}}, 422),
        ({"terms": {"": "x"}}, 422),
        ({"forbid": ["x"] * 51}, 422),
        ({"keep": ["(a+)+b"]}, 422),
        ({"glossary": "pets", "soft": True}, 400),
    ],
)
def test_what_is_too_much_or_unknown_is_refused(
    server: TestClient, body: dict[str, object], status: int
) -> None:
    response = server.post("/v1/translate", json={"text": SOURCE, **body})
    assert response.status_code == status, response.text
    assert "\n" not in response.json()["error"]


def test_the_attention_page_shows_the_translation_with_the_glossary(server: TestClient) -> None:
    form = {"text": "The dog eats.", "source": "en", "target": "de", "glossary": "pets"}
    response = server.post("/attention", data=form)
    assert response.status_code == 200
    assert "Hund" in response.text
