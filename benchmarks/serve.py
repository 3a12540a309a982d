"""Throughput and latency of `transduce serve`, beside the translator without a server.

    python benchmarks/serve.py MODEL SENTENCES

Clients on the loopback interface send a sentence each and wait for the response, over and over. The
claims: with 2, 16 and 64 clients at least 70 % of the sentences a second that the translator itself
does with 64 at a time (measured before and after each, in this process, on the same sentences);
responses equal the translator's; over the limit the status is 429 with Retry-After; after SIGTERM
under load every request that was sent before it gets its response.

Also shown is the translator with as many sentences at a time as there are clients: a server cannot
batch more than it is asked for.
"""

import argparse
import asyncio
import json
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import transduce

CLIENTS = (2, 16, 64)
CLAIM = 0.7
BATCH = 64
BEFORE_SIGNAL_S = 0.05
"""A request sent this long before the signal has reached the server."""


@dataclass(frozen=True)
class Reply:
    """A response; a status of 0 means that there was none."""

    number: int
    sent: float
    seconds: float
    status: int
    body: bytes = b""
    retry_after: str = ""


@contextmanager
def served(model: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start the real command on a free port."""
    command = [sys.executable, "-m", "transduce", "serve", f"xx-yy={model}", "--port", "0"]
    process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("serving"):
            port = int(line.split(" (")[0].rpartition(":")[2])
            break
    else:
        raise SystemExit("the server did not start")
    try:
        yield process, port
    finally:
        process.terminate()
        process.wait()


def request_of(sentence: str) -> bytes:
    """Write a request as a client of LibreTranslate does."""
    body = json.dumps({"q": sentence, "source": "xx", "target": "yy"}).encode()
    head = f"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Content-Type: application/json\r\n\r\n".encode() + body


async def ask(port: int, requests: Sequence[bytes], numbers: Iterator[int]) -> list[Reply]:
    """Send requests on one connection, each after the response to the one before."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    replies = []
    for number in numbers:
        if number >= len(requests):
            break
        sent = time.perf_counter()
        try:
            writer.write(requests[number])
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
            fields = dict(line.split(": ", 1) for line in head[1:] if line)
            body = await reader.readexactly(int(fields["content-length"]))
        except (ConnectionError, asyncio.IncompleteReadError):
            replies.append(Reply(number, sent, 0.0, 0))
            break
        seconds = time.perf_counter() - sent
        status, again = int(head[0].split()[1]), fields.get("retry-after", "")
        replies.append(Reply(number, sent, seconds, status, body, again))
        if fields.get("connection") == "close":
            break
    writer.close()
    return replies


async def ask_all(port: int, requests: Sequence[bytes], clients: int) -> list[Reply]:
    """Distribute the requests over this many clients."""
    numbers = count()
    found = await asyncio.gather(*(ask(port, requests, numbers) for _ in range(clients)))
    return [reply for replies in found for reply in replies]


def offline(translator: transduce.Translator, sentences: list[str], batch: int) -> float:
    """Return how many sentences a second the translator does, `batch` at a time."""
    began = time.perf_counter()
    for _ in translator.stream(sentences, window=batch):
        pass
    return len(sentences) / (time.perf_counter() - began)


def measure(model: Path, sentences: list[str], options: list[str]) -> bool:
    """Print a row for each number of clients; return whether all claims hold."""
    translator = transduce.load(model)
    expected = [one.text for one in translator.translate(sentences)]
    requests = [request_of(sentence) for sentence in sentences]
    holds = True
    print("clients  sentences/s  of offline at 64  of offline at as many     p50 ms     p99 ms")
    with served(model, *options) as (_, port):
        asyncio.run(ask_all(port, requests[:BATCH], 8))  # warm
        before = offline(translator, sentences, BATCH)
        for clients in CLIENTS:
            some = requests if clients > 4 else requests[: len(requests) // 4]
            began = time.perf_counter()
            replies = asyncio.run(ask_all(port, some, clients))
            rate = len(some) / (time.perf_counter() - began)
            alike = offline(translator, sentences[: len(some)], clients)
            after = offline(translator, sentences, BATCH)
            share = rate / ((before + after) / 2)
            before = after
            times = sorted(1000 * reply.seconds for reply in replies)
            p50, p99 = statistics.median(times), times[int(0.99 * (len(times) - 1))]
            print(
                f"{clients:7}  {rate:11.1f}  {share:15.0%}  {rate / alike:21.0%}"
                f"  {p50:9.0f}  {p99:9.0f}",
                flush=True,
            )
            found = {reply.number: json.loads(reply.body) for reply in replies}
            wrong = sum(
                found[number].get("translatedText") != expected[number]
                for number in range(len(some))
            )
            print(f"         {wrong} of {len(some)} responses differ from the translator's")
            holds = holds and share >= CLAIM and wrong == 0
    return holds


def overload(model: Path, requests: list[bytes]) -> bool:
    """Send far more requests than the queue holds."""
    with served(model, "--max-queue", "8", "--max-sentences", "8") as (_, port):
        replies = asyncio.run(ask_all(port, requests, 64))
    statuses = Counter(reply.status for reply in replies)
    waits = all(reply.retry_after.isdigit() for reply in replies if reply.status == 429)
    print(f"overload: {dict(statuses)} (status: responses), Retry-After on every 429: {waits}")
    return set(statuses) == {200, 429} and waits


async def until_signal(process: subprocess.Popen[str], port: int, requests: list[bytes]) -> bool:
    """Send SIGTERM while 32 clients send requests; those sent before it must get a response."""
    asking = asyncio.create_task(ask_all(port, requests, 32))
    await asyncio.sleep(2)
    process.send_signal(signal.SIGTERM)
    signalled = time.perf_counter()
    replies = await asking
    lost = [r for r in replies if r.status != 200 and r.sent < signalled - BEFORE_SIGNAL_S]
    waiting = [r for r in replies if r.status == 200 and r.sent < signalled < r.sent + r.seconds]
    print(
        f"SIGTERM: {len(replies)} requests sent, {len(waiting)} under way at the signal and "
        f"answered after it, {len(lost)} lost; exit code {process.wait()}"
    )
    return not lost and bool(waiting) and process.returncode == 0


def main() -> None:
    """Run the three parts; exit with 1 unless all claims hold."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("sentences", type=Path, help="one a line")
    parser.add_argument("--most", type=int, default=512, help="sentences to take")
    parser.add_argument("--options", nargs=argparse.REMAINDER, default=[], help="of serve")
    given = parser.parse_args()
    lines = given.sentences.read_text(encoding="utf-8").splitlines()
    sentences = [line for line in lines if line.strip()][: given.most]
    requests = [request_of(sentence) for sentence in sentences]
    holds = measure(given.model, sentences, given.options)
    holds = overload(given.model, requests) and holds
    with served(given.model) as (process, port):
        holds = asyncio.run(until_signal(process, port, requests * 20)) and holds
    print("all claims hold" if holds else "not all claims hold")
    sys.exit(not holds)


if __name__ == "__main__":
    main()
