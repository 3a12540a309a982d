"""Our own API: its responses are what the translator returns."""

import base64
import json
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from tests.serving.conftest import EN_DE
from tests.serving.fakes import Shouting, as_translator
from tests.translation.likely import sentences
from transduce.serving.app import make_app
from transduce.serving.keys import Keys
from transduce.serving.languages import LanguagePair
from transduce.serving.limits import Limits
from transduce.translation.alignment.word_links import align
from transduce.translation.options import Options
from transduce.translation.translator import Translator

SENTENCES = list(sentences(8))
LONG = "The old king gives his daughter a book. " * 3


def lines_of(client: TestClient, **body: Any) -> list[dict[str, Any]]:
    response = client.post("/v1/translate", json=body)
    assert response.status_code == 200, response.text
    lines: list[dict[str, Any]] = response.json()["translations"][0]["lines"]
    return lines


def test_concurrent_clients_get_what_the_translator_returns_for_each(
    client: TestClient, translator: Translator
) -> None:
    def ask(text: str) -> str:
        answer = client.post("/v1/translate", json={"text": text}).json()
        found: str = answer["translations"][0]["text"]
        return found

    texts = [*SENTENCES, LONG]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(ask, texts))
    assert found == [one.text for one in translator.translate(texts)]


def test_the_n_best_have_their_scores(client: TestClient, translator: Translator) -> None:
    [line] = lines_of(client, text=SENTENCES[0], n_best=3)
    [expected] = translator.translate(SENTENCES[:1], Options(n_best=3))
    found = [(one["text"], one["score"]) for one in line["alternatives"]]
    assert [text for text, _ in found] == [text for text, _ in expected.alternatives]
    assert [score for _, score in found] == pytest.approx([s for _, s in expected.alternatives])
    assert (line["text"], line["note"]) == (expected.text, expected.note)


def test_alignment_and_attention_are_those_of_the_translator(
    client: TestClient, translator: Translator
) -> None:
    text = SENTENCES[1]
    [line] = lines_of(client, text=text, alignment=True, attention=True)
    [expected] = translator.translate([text], Options(attention=True))
    found = align(expected.attention, source=text, translation=expected.text)
    assert line["alignment"] == [list(link) for link in found.links]
    assert (line["source_words"], line["text_words"]) == (text.split(), line["text"].split())
    for part, shown in zip(line["attention"], expected.attention, strict=True):
        for name in ("encoder", "decoder", "cross"):
            packed = np.frombuffer(base64.b64decode(part[name]), "<u2") / 65_535
            weights = packed.reshape(getattr(shown, name).shape)
            assert np.allclose(weights, getattr(shown, name), atol=1e-5)
            assert np.allclose(weights.sum(axis=-1), 1, atol=1e-3)


def test_fields_that_were_not_asked_for_are_absent(client: TestClient) -> None:
    [line] = lines_of(client, text=SENTENCES[0])
    assert not {"alignment", "attention", "source_words", "text_words"} & set(line)


def test_blank_lines_and_line_ends_are_kept(client: TestClient, translator: Translator) -> None:
    text = f"{SENTENCES[0]}\r\n\r\n  \n{SENTENCES[1]}\n"
    answer = client.post("/v1/translate", json={"text": text}).json()
    first, second = (one.text for one in translator.translate(SENTENCES[:2]))
    assert answer["translations"][0]["text"] == f"{first}\r\n\r\n\n{second}\n"


def test_a_document_of_any_length_is_streamed_line_by_line(
    client: TestClient, translator: Translator
) -> None:
    document = "\n".join([*SENTENCES, "", *SENTENCES * 3])
    response = client.post("/v1/stream", json={"text": document, "n_best": 2})
    rows = [json.loads(row) for row in response.text.splitlines()]
    expected = translator.translate(document.split("\n"), Options(n_best=2))
    assert [row["text"] for row in rows] == [one.text for one in expected]
    assert response.headers["content-type"] == "application/x-ndjson"


def test_a_document_waits_for_capacity_instead_of_failing() -> None:
    limits = Limits(max_queue=40, max_sentences=40)
    fake = Shouting()
    with TestClient(make_app({EN_DE: as_translator(fake)}, version="1", limits=limits)) as client:
        document = "\n".join(f"line {number}" for number in range(300))

        def ask(_: int) -> list[str]:
            response = client.post("/v1/stream", json={"text": document})
            if response.status_code == 429:
                return []
            return [json.loads(row)["text"] for row in response.text.splitlines()]

        with ThreadPoolExecutor(3) as threads:
            found = list(threads.map(ask, range(3)))
    assert document.upper().split("\n") in found
    assert all(one in ([], document.upper().split("\n")) for one in found)


def test_an_error_within_a_stream_is_its_last_row() -> None:
    limits = Limits(deadline_s=0.2)
    fake = Shouting()
    with TestClient(make_app({EN_DE: as_translator(fake)}, version="1", limits=limits)) as client:
        document = "\n".join(["a"] * 32 + ["b"] * 32)

        def close_before_the_second_part(lines: list[str], options: Options) -> Any:
            if "b" in lines:
                fake.gate.clear()
            return Shouting.translate(fake, lines, options)

        fake.translate = close_before_the_second_part  # type: ignore[method-assign, assignment]
        response = client.post("/v1/stream", json={"text": document})
    rows = [json.loads(row) for row in response.text.splitlines()]
    assert [row.get("text") for row in rows] == ["A"] * 32 + [None]
    assert "0.2 s" in rows[-1]["error"]


def test_a_request_delayed_by_others_may_be_tried_again() -> None:
    fake = Shouting()
    app = make_app({EN_DE: as_translator(fake)}, version="1", limits=Limits(deadline_s=1.5))
    with TestClient(app) as client, ThreadPoolExecutor(3) as threads:

        def ask(text: str) -> Future[Any]:
            return threads.submit(client.post, "/v1/translate", json={"text": text})

        assert ask("how fast it is").result().status_code == 200
        fake.began.acquire()
        fake.gate.clear()
        first = ask("a")
        fake.began.acquire()
        others = [ask("b"), ask("c")]  # they wait for it until it is cancelled
        assert first.result().status_code == 413
        for other in others:
            assert other.result().status_code == 429
            assert int(other.result().headers["Retry-After"]) >= 1


def test_a_request_is_cancelled_at_the_deadline() -> None:
    fake = Shouting()
    fake.gate.clear()
    app = make_app({EN_DE: as_translator(fake)}, version="1", limits=Limits(deadline_s=0.1))
    with TestClient(app) as client:
        response = client.post("/v1/translate", json={"text": "a"})
        assert response.status_code == 413
        assert "not finished within 0.1 s" in response.json()["error"]
    # The application has closed although the gate is closed: the batch was cancelled.


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"text": "a", "n_best": 9}, 422, "n_best"),
        ({"text": "a", "n_best": 3, "beam": 2}, 422, "wider beam"),
        ({"text": "a", "beam": True}, 422, "beam"),
        ({"text": "a", "colour": "red"}, 422, "colour"),
        ({"text": []}, 422, "text"),
        ({}, 422, "text"),
        ({"text": "a" * 10_001}, 413, "characters"),
        ({"text": "Go on! " * 201}, 413, "sentences"),
        ({"text": "\n" * 1_000}, 413, "lines"),
        ({"text": "a " * 600, "attention": True}, 413, "attention"),
        ({"text": "a", "target": "fr"}, 400, "en-de"),
        ({"text": "a", "source": "fr", "target": "de"}, 400, "en-de"),
    ],
)
def test_a_refusal_is_one_line(
    client: TestClient, body: dict[str, Any], status: int, message: str
) -> None:
    response = client.post("/v1/translate", json=body)
    assert response.status_code == status
    assert set(response.json()) == {"error"}
    assert message in response.json()["error"]
    assert "\n" not in response.json()["error"]


def test_the_languages_choose_among_several_models() -> None:
    shouting, other = Shouting(), Shouting()
    pairs = {
        EN_DE: as_translator(shouting),
        LanguagePair("en", "fr"): as_translator(other),
        LanguagePair("de", "fr"): as_translator(other),
    }
    with TestClient(make_app(pairs, version="1")) as client:

        def ask(**languages: str) -> Any:
            return client.post("/v1/translate", json={"text": "a", **languages}).json()

        assert (ask(target="de")["source"], len(other.batches)) == ("en", 0)
        assert (ask(source="de")["target"], len(shouting.batches)) == ("fr", 1)
        assert "the source is ambiguous" in ask(target="fr")["error"]
        assert "the target is ambiguous" in ask(source="en")["error"]
        listed = client.get("/v1/models").json()["pairs"]
        assert [(one["source"], one["target_name"]) for one in listed] == [
            ("de", "French"),
            ("en", "German"),
            ("en", "French"),
        ]


def test_with_keys_every_request_needs_one() -> None:
    app = make_app({EN_DE: as_translator(Shouting())}, version="1", keys=Keys(["sesame", "other"]))
    with TestClient(app) as client:
        for path, body in (
            ("/v1/translate", {"text": "a"}),
            ("/v1/stream", {"text": "a"}),
            ("/translate", {"q": "a", "source": "en", "target": "de"}),
            ("/detect", {"q": "a"}),
        ):
            assert client.post(path, json=body).status_code == 403
            for key in ("sesam", "sesame2", "", "ſesame"):
                head = {b"Authorization": f"Bearer {key}".encode()}
                assert client.post(path, json=body, headers=head).status_code == 403
            for key in ("sesame", "other"):
                head = {b"Authorization": f"Bearer {key}".encode()}
                assert client.post(path, json=body, headers=head).status_code == 200
        body = {"q": "a", "source": "en", "target": "de", "api_key": "other"}
        assert client.post("/translate", json=body).status_code == 200
        form = {"text": "a", "source": "en", "target": "de"}
        assert client.post("/attention", data=form).status_code == 403
        assert client.post("/attention", data=form | {"api_key": "other"}).status_code == 400
        assert client.get("/frontend/settings").json()["keyRequired"] is True
