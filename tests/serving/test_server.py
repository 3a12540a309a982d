"""The server in its own process: slow and disconnecting clients, and shutdown."""

import http.client
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

import pytest

from tests.command import Command, forked
from tests.serving.start import main

COMMAND = [sys.executable, "-m", "transduce"]
HEAD = "POST /v1/translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


class ForkedServer:
    """`tests.serving.start` in a process where torch is loaded, which saves seconds."""

    def __init__(self, arguments: Sequence[str]) -> None:
        reading, writing = multiprocessing.Pipe(duplex=False)
        self._process = forked(_serve, list(arguments), writing)
        writing.close()
        self.stderr: IO[str] = os.fdopen(os.dup(reading.fileno()), encoding="utf-8")
        reading.close()

    def send_signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int | None:
        self._process.join()
        return self._process.exitcode


def _serve(arguments: list[str], stderr: Connection) -> None:
    os.dup2(stderr.fileno(), 2)
    stderr.close()
    main(*arguments)


Server = subprocess.Popen[str] | ForkedServer


@contextmanager
def started(command: list[str]) -> Iterator[tuple[Server, int]]:
    """Start a server by a command in a process of its own."""
    with _ready(subprocess.Popen(command, stderr=subprocess.PIPE, text=True)) as running:
        yield running


@contextmanager
def held(file: Path, seconds: float | None = None, **limits: Any) -> Iterator[tuple[Server, int]]:
    """Start `tests.serving.start`, which holds some requests until the file exists."""
    given = [] if seconds is None else [str(seconds), json.dumps(limits)]
    with _ready(ForkedServer([str(file), *given])) as running:
        yield running


@contextmanager
def _ready(process: Server) -> Iterator[tuple[Server, int]]:
    assert process.stderr is not None
    try:
        message = ""
        for message in process.stderr:
            if message.startswith("serving"):
                break
        else:
            pytest.fail(f"it did not start: {message}")
        yield process, int(message.split(" (")[0].rpartition(":")[2])
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    never = tmp_path_factory.mktemp("held") / "never"
    with held(never) as (_, port):
        yield port


def post(port: int, text: str) -> tuple[int, dict[str, object]]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    head = {"Content-Type": "application/json"}
    connection.request("POST", "/v1/translate", json.dumps({"text": text}), head)
    response = connection.getresponse()
    answer = response.status, json.loads(response.read())
    connection.close()
    return answer


def raw(port: int, sent: str) -> bytes:
    """Send this and nothing more; return all that is received until the server closes."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(sent.encode())
        received = b""
        while more := connection.recv(4096):
            received += more
        return received


def metric(port: int, name: str) -> float:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/metrics")
    rows = connection.getresponse().read().decode().splitlines()
    connection.close()
    return next(float(row.split()[-1]) for row in rows if row.startswith(f"{name} "))


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (HEAD + 'Content-Length: 50\r\n\r\n{"te', b" 408 "),
        (HEAD + 'Transfer-Encoding: chunked\r\n\r\n4\r\n{"te\r\n', b" 408 "),
        (HEAD + "Content-Length: 99999\r\n\r\n", b" 413 "),
        (HEAD + "Transfer-Encoding: chunked\r\n\r\n2ee0\r\n" + "a" * 12_000 + "\r\n", b" 413 "),
        (HEAD + "Content-Length: nonsense\r\n\r\n", b" 400 "),
    ],
)
def test_bodies_that_are_slow_or_too_long_are_refused_and_the_connection_closed(
    port: int, sent: str, status: bytes
) -> None:
    assert status in raw(port, sent).split(b"\r\n")[0]


@pytest.mark.parametrize(
    "sent", ["", "GET / HT", HEAD, "GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET"]
)
def test_a_connection_without_a_whole_request_is_closed(port: int, sent: str) -> None:
    received = raw(port, sent)
    assert received.count(b"HTTP/1.1") == sent.count("health")


def test_a_disconnected_request_is_cancelled(port: int) -> None:
    body = json.dumps({"text": "hold"})
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"{HEAD}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        while metric(port, "transduce_queue_sentences") == 0:
            time.sleep(0.01)
    _, answer = post(port, "next")  # it would wait for the other one forever
    assert answer["translations"][0]["text"] == "NEXT"  # type: ignore[index]
    assert metric(port, "transduce_batches_stopped_total") == 1
    assert metric(port, "transduce_requests_abandoned_total") == 1


def test_after_sigterm_accepted_requests_are_answered_and_no_more_are_accepted(
    tmp_path: Path,
) -> None:
    file = tmp_path / "go"
    with held(file) as (process, port), ThreadPoolExecutor(12) as clients:
        texts = [f"hold {letter}" for letter in "abcdefghijkl"]
        asking = [clients.submit(post, port, text) for text in texts]
        while metric(port, "transduce_queue_sentences") < len(texts):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        while is_listening(port):
            time.sleep(0.01)
        file.touch()
        for text, one in zip(texts, asking, strict=True):
            status, answer = one.result()
            assert (status, text.upper() in json.dumps(answer)) == (200, True)
        assert process.wait() == 0


def test_the_limit_on_open_files_is_raised(tmp_path: Path) -> None:
    few = (
        "import resource, runpy; limits = resource.getrlimit(resource.RLIMIT_NOFILE); "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, limits[1])); "
        "runpy.run_module('tests.serving.start', run_name='__main__')"
    )
    with (
        started([sys.executable, "-c", few, str(tmp_path / "none")]) as (process, port),
        ExitStack() as connections,
    ):
        for _ in range(100):
            connections.enter_context(socket.create_connection(("127.0.0.1", port)))
        _, answer = post(port, "next")
        assert answer["translations"][0]["text"] == "NEXT"  # type: ignore[index]
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def test_the_command_serves_what_the_command_translates(
    folder: Path, tmp_path: Path, command: Command
) -> None:
    text = tmp_path / "text"
    text.write_text("The king sleeps.\n\nA dog runs. The queen reads a book.\n")
    translated = command("translate", folder, text).out
    with started([*COMMAND, "serve", f"en-de={folder}", "--port", "0"]) as (process, port):
        _, answer = post(port, text.read_text())
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    assert answer["translations"][0]["text"] == translated  # type: ignore[index]
