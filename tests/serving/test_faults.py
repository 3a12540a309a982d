"""A fault of one model, or of the thread that translates, is told, and others are answered."""

from collections.abc import Iterator, Sequence

import pytest
from fastapi.testclient import TestClient

from tests.serving.conftest import EN_DE
from tests.serving.fakes import Shouting, as_translator
from transduce.serving.app import make_app
from transduce.serving.batcher import MAX_RESTARTS, Batcher, Job
from transduce.serving.languages import LanguagePair
from transduce.serving.limits import Limits
from transduce.text.markup.marked import Line
from transduce.translation.options import Options, Translation


class Panic(BaseException):
    """What libraries written in Rust raise when they fail: it is no Exception."""


class Panicking(Shouting):
    """Panics at some words: while it counts tokens, while it translates, or by losing a line."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        if "uncountable" in texts:
            raise Panic
        return super().count_tokens(texts)

    def translate(self, lines: Sequence[Line], options: Options) -> list[Translation]:
        if "untranslatable" in lines:
            raise Panic
        found = super().translate(lines, options)
        return found[:-1] if "lost" in lines else found


@pytest.fixture
def client() -> Iterator[TestClient]:
    pairs = {
        EN_DE: as_translator(Shouting()),
        LanguagePair("en", "fr"): as_translator(Panicking()),
    }
    limits = Limits(deadline_s=3)
    with TestClient(make_app(pairs, version="1", limits=limits)) as client:
        yield client


def status(client: TestClient, text: str, target: str) -> int:
    response = client.post("/v1/translate", json={"text": text, "target": target})
    assert ("error" in response.json()) == (response.status_code != 200)
    return response.status_code


@pytest.mark.parametrize("text", ["uncountable", "untranslatable", "lost"])
def test_a_panic_of_one_model_fails_its_own_request_alone(client: TestClient, text: str) -> None:
    assert status(client, text, "fr") == 500
    assert status(client, "good", "de") == 200
    assert status(client, "good", "fr") == 200
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/metrics").text.count('route="/v1/translate",status="500"') > 0


def test_a_thread_that_ends_is_replaced_and_its_requests_get_an_error(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = Batcher._take

    def take_and_end(batcher: Batcher) -> list[Job]:
        jobs = take(batcher)
        if any(job.line == "end" for job in jobs):
            raise Panic
        return jobs

    monkeypatch.setattr(Batcher, "_take", take_and_end)
    for number in range(1, MAX_RESTARTS):
        assert status(client, "end", "de") == 500
        assert status(client, "next", "de") == 200
        assert client.get("/health").json() == {"status": "ok", "restarts": number}
    assert status(client, "end", "de") == 500
    health = client.get("/health")
    assert health.status_code == 503
    assert "keeps ending" in health.json()["status"]


def test_a_thread_that_is_gone_is_told(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(_batcher: Batcher) -> list[Job]:
        raise Panic

    monkeypatch.setattr(Batcher, "_take", end)
    monkeypatch.setattr(Batcher, "_replace_thread", lambda _batcher: None)
    assert status(client, "end", "de") == 429  # at the deadline
    health = client.get("/health")
    assert (health.status_code, health.json()["status"]) == (503, "the model thread has ended")
