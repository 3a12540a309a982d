"""Every client gets its turn: no request occupies the event loop, whatever it consists of."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.serving.conftest import EN_DE
from tests.serving.fakes import Shouting, as_translator
from transduce.serving.app import make_app
from transduce.serving.http.json_bodies import parse_json
from transduce.serving.limits import Limits


class Exchange:
    """One request to the application without a network: sending never waits.

    A second task counts its turns. `turns` has their number at each piece of the response.
    """

    def __init__(self, path: str, body: bytes) -> None:
        self.path = path
        self.body = body
        self.turns: list[int] = []
        self.received = b""

    async def run(self) -> None:
        app = make_app({EN_DE: as_translator(Shouting())}, version="1", limits=Limits())
        counted = 0

        async def count() -> None:
            nonlocal counted
            while True:
                counted += 1
                await asyncio.sleep(0)

        async def receive() -> dict[str, Any]:
            if self.body:
                body, self.body = self.body, b""
                return {"type": "http.request", "body": body, "more_body": False}
            return await asyncio.Future()

        async def send(message: Any) -> None:
            self.turns.append(counted)
            self.received += message.get("body", b"")

        scope = {
            "type": "http",
            "method": "POST",
            "path": self.path,
            "query_string": b"",
            "headers": [(b"content-type", b"application/json"), (b"host", b"localhost")],
        }
        async with app.router.lifespan_context(app):
            counting = asyncio.create_task(count())
            await app(scope, receive, send)
            counting.cancel()


def test_between_two_pieces_of_a_response_others_have_their_turn() -> None:
    lines = 19_000
    exchange = Exchange("/v1/stream", json.dumps({"text": "\n" * lines + "a"}).encode())
    asyncio.run(exchange.run())
    assert exchange.received.count(b"\n") == lines + 1
    body = exchange.turns[1:]  # the first has the headers
    assert len(body) > 10
    assert all(after > before for before, after in pairwise(body))


@pytest.mark.parametrize(
    "body",
    [
        b'{"text": [' + b"[]," * 340_000 + b"[]]}",
        b'{"text": [' + b'"a",' * 200_000 + b"1]}",
        b"{" + b'"\\"a":1,' * 100_000 + b'"b":1}',
        b'{"text": "a", "b": ' + b"1" * 900_000 + b"}",
    ],
)
def test_json_of_many_small_parts_is_not_even_read(client: TestClient, body: bytes) -> None:
    for path in ("/v1/translate", "/v1/stream", "/translate", "/detect"):
        response = client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert response.status_code == 413
        assert "too many parts" in response.json()["error"]


@pytest.mark.parametrize(
    "value",
    [
        {"text": "[{,:" * 100_000},
        {"text": '\\" [1, 2] \\\\" ' * 20_000},
        {"text": ["a, b"] * 1_000, "n_best": 2},
        [{"a": [1, None, True]}],
    ],
)
def test_texts_are_read_whatever_they_contain(value: Any) -> None:
    assert parse_json(json.dumps(value, indent=2).encode(), malformed=400) == value


def test_a_form_may_not_be_larger_than_its_text(client: TestClient) -> None:
    response = client.post("/translate", data={"q": "é" * 30_000, "source": "en", "target": "de"})
    assert response.status_code == 413
    assert "bytes" in response.json()["error"]
