"""Clients that mean harm, against a server in its own process: others are answered all the same."""

import http.client
import json
import select
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.serving.test_server import HEAD, held, metric, post, raw

GET = "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"
BLANK = json.dumps({"text": "\n" * 19_999})
PATIENCE_S = 30
"""After this time a test fails that would otherwise wait forever."""


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server with short times for its clients, and room for large bodies."""
    folder = tmp_path_factory.mktemp("attacked")
    with held(folder / "never", 0.5, max_body_bytes=1 << 20) as (_, port):
        yield port


def connected(port: int, *, buffer: int | None = None) -> socket.socket:
    connection = socket.socket()
    if buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.settimeout(PATIENCE_S)
    connection.connect(("127.0.0.1", port))
    return connection


def is_dropped(connection: socket.socket) -> bool:
    """Wait, without reading, until the server ends the connection."""
    poll = select.poll()
    poll.register(connection, select.POLLERR | select.POLLHUP)
    return bool(poll.poll(1_000 * PATIENCE_S))


def stream_of(body: str) -> bytes:
    return (
        f"{HEAD.replace('translate', 'stream')}Content-Length: {len(body)}\r\n\r\n{body}".encode()
    )


def test_streams_of_blank_lines_that_are_dropped_leave_nothing_in_the_log(tmp_path: Path) -> None:
    with held(tmp_path / "never", 5, max_body_bytes=1 << 20) as (process, port):
        for _ in range(20):
            with connected(port, buffer=4096) as connection:
                connection.sendall(stream_of(BLANK))
                connection.recv(1)  # the response has begun
        assert post(port, "next")[0] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    "sent",
    [stream_of(BLANK), GET.format(path="/openapi.json").encode() * 30],
    ids=["stream", "get"],
)
def test_a_client_that_does_not_read_is_dropped(attacked: int, sent: bytes) -> None:
    with connected(attacked, buffer=2048) as connection:
        connection.sendall(sent)
        assert is_dropped(connection)


def test_a_client_that_reads_slowly_gets_everything(tmp_path: Path) -> None:
    with (
        held(tmp_path / "never", PATIENCE_S, max_body_bytes=1 << 20) as (_, port),
        connected(port, buffer=4096) as connection,
    ):
        connection.sendall(stream_of(BLANK).replace(b"Host", b"Connection: close\r\nHost", 1))
        received = 0
        while more := connection.recv(4096):
            received += len(more)
    row = '{"source":"","text":"","score":0.0,"alternatives":[{"text":"","score":0.0}]'
    assert received > 20_000 * len(row)


def test_the_connections_of_one_address_are_limited(tmp_path: Path) -> None:
    with (
        held(tmp_path / "never", 60, max_connections_per_client=3) as (_, port),
        ExitStack() as opened,
    ):
        kept = [opened.enter_context(connected(port)) for _ in range(3)]
        with connected(port) as fourth:
            assert fourth.recv(1) == b""
        kept.pop().close()
        for connection in kept:
            connection.sendall(GET.format(path="/health").encode())
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        while True:  # the place of the closed one is free again
            with connected(port) as again:
                again.sendall(GET.format(path="/health").encode())
                if again.recv(4096).startswith(b"HTTP/1.1 200"):
                    break


def test_only_some_requests_may_be_sent_ahead(attacked: int) -> None:
    received = raw(attacked, GET.format(path="/health") * 100)
    assert received.count(b"HTTP/1.1 200") == 33
    received = raw(attacked, GET.format(path="/health") * 20)
    assert received.count(b"HTTP/1.1 200") == 20


def test_a_request_that_was_sent_ahead_has_the_time_of_any_other(tmp_path: Path) -> None:
    go = tmp_path / "go"
    body = json.dumps({"text": "hold on"})
    ahead = f"{GET.format(path='/health')}{HEAD}Content-Length: {len(body)}\r\n\r\n{body}"
    with held(go, 0.5) as (_, port), connected(port) as connection:
        connection.sendall(ahead.encode())
        while metric(port, "transduce_queue_sentences") == 0:
            time.sleep(0.01)
        time.sleep(1)  # longer than a connection may be idle
        go.touch()
        received = b""
        while b"HOLD ON" not in received:
            piece = connection.recv(65_536)
            assert piece, f"closed after {received!r}"
            received += piece


def test_a_client_that_has_stopped_sending_is_answered(tmp_path: Path) -> None:
    go = tmp_path / "go"
    body = json.dumps({"text": "hold on"})
    with held(go, 60) as (_, port), connected(port) as connection:
        connection.sendall(f"{HEAD}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        connection.shutdown(socket.SHUT_WR)
        while metric(port, "transduce_queue_sentences") == 0:
            time.sleep(0.01)
        go.touch()
        response = http.client.HTTPResponse(connection)
        response.begin()
        assert response.status == 200
        assert json.loads(response.read())["translations"][0]["text"] == "HOLD ON"
        assert connection.recv(1) == b""


def test_bodies_in_flight_are_limited(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with held(go, 60, max_requests=2) as (_, port), ThreadPoolExecutor(2) as clients:
        asking = [clients.submit(post, port, f"hold {name}") for name in "ab"]
        while metric(port, "transduce_queue_sentences") < 2:
            time.sleep(0.01)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        connection.request("POST", "/v1/translate", b"{}", {"Content-Type": "application/json"})
        refused = connection.getresponse()
        assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
        connection.close()
        go.touch()
        assert [one.result()[0] for one in asking] == [200, 200]
        assert post(port, "next")[0] == 200


@pytest.mark.parametrize("sent", ["nonsense\r\n\r\n", "GET /" + "a" * 70_000, HEAD + "A b\r\n\r\n"])
def test_what_is_not_http_gets_an_error_in_the_usual_form(attacked: int, sent: str) -> None:
    head, _, body = raw(attacked, sent).decode().partition("\r\n\r\n")
    status, *headers = head.lower().split("\r\n")
    assert " 400 " in status
    assert set(json.loads(body)) == {"error"}
    for header in (
        "content-type: application/json",
        "x-content-type-options: nosniff",
        "connection: close",
        "access-control-allow-origin: https://site.example",
    ):
        assert header in headers
