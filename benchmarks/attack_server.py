"""`transduce serve` under attack: what others notice, and whether memory levels off.

    python benchmarks/attack_server.py MODEL SENTENCES [--minutes 10] [--clients 64]

Of the clients on the loopback interface, five of eight translate texts of random lengths and
compare the answers with the translator's. The others stream documents with blank lines, disconnect
at any moment, send nothing but blank lines, read slowly, or pipeline requests and never read. A
process of its own asks for /health all the time.

The claims: /health takes at most 100 ms in 99 of 100 cases; no answer is wrong, and none is lost;
at the end the server's memory is within 5 % of that after the third minute.
"""

import argparse
import asyncio
import json
import multiprocessing
import random
import socket
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from serve import served

import transduce

HEALTH_MS = 100.0
GROWTH = 0.05
TEXTS = 300
DOCUMENTS = 40
BLANK = json.dumps({"text": "\n" * 19_999}).encode()
PATIENCE_S = 90.0
"""A response that takes longer is lost; the server's own deadline for a part is 30 s."""
PAUSE_S = 0.02
"""How long a slow reader waits before it reads a little more."""


@dataclass
class Tally:
    """What the clients have seen, and what is right."""

    port: int
    end: float
    translations: dict[str, str]
    documents: list[list[str]]
    random: random.Random
    seen: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)  # what was asked, expected and found

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self.end

    def lose(self, asked: object, fault: Exception) -> None:
        """Count a response that did not come."""
        self.seen["lost"] += 1
        self.wrong.append(
            f"lost: {fault!r} at {time.monotonic() - self.end:.1f} s; asked {asked!r}"
        )

    def judge(self, status: int, asked: object, expected: object, found: object) -> None:
        """Count a response."""
        if status == 429:
            self.seen["busy"] += 1
        elif status == 200 and found == expected:
            self.seen["right"] += 1
        else:
            self.seen["wrong"] += 1
            self.wrong.append(f"{status}: asked {asked!r}, expected {expected!r}, found {found!r}")


def post(path: str, body: bytes) -> bytes:
    """Write a request."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def read_response(reader: asyncio.StreamReader, *, pause_s: float = 0) -> tuple[int, bytes]:
    """Read a response; one that does not come is lost as if the connection were."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await _read_response(reader, pause_s)
    except TimeoutError as late:
        raise ConnectionError(f"no response within {PATIENCE_S:g} s") from late


async def _read_response(reader: asyncio.StreamReader, pause_s: float) -> tuple[int, bytes]:
    """Read a response with a length or in chunks; return its status and its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
    status, fields = int(head[0].split()[1]), dict(row.split(": ", 1) for row in head[1:] if row)
    if "content-length" in fields:
        return status, await reader.readexactly(int(fields["content-length"]))
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
        await asyncio.sleep(pause_s)
    await reader.readexactly(2)
    return status, body


async def translate(tally: Tally) -> None:
    """Translate texts on one connection, and compare."""
    reader, writer = await asyncio.open_connection("127.0.0.1", tally.port)
    texts = list(tally.translations)
    while not tally.is_over:
        text = tally.random.choice(texts)
        try:
            writer.write(post("/v1/translate", json.dumps({"text": text}).encode()))
            status, body = await read_response(reader)
        except (ConnectionError, asyncio.IncompleteReadError) as fault:
            tally.lose(text, fault)
            return
        found = json.loads(body)["translations"][0]["text"] if status == 200 else body
        tally.judge(status, text, tally.translations[text], found)
    writer.close()


async def stream(tally: Tally, *, buffer: int = 1 << 16, pause_s: float = 0) -> None:
    """Stream a document, slowly if asked, and compare."""
    lines = tally.random.choice(tally.documents)
    body = json.dumps({"text": "\n".join(lines)}).encode()
    reader, writer = await _connect(tally.port, buffer)
    try:
        writer.write(post("/v1/stream", body))
        status, received = await read_response(reader, pause_s=pause_s)
    except (ConnectionError, asyncio.IncompleteReadError) as fault:
        tally.lose(lines, fault)
        return
    finally:
        writer.close()
    rows = [json.loads(row) for row in received.splitlines()] if status == 200 else []
    if rows and "error" in rows[-1]:
        tally.seen["busy"] += 1
        return
    expected = [tally.translations[line] if line else "" for line in lines]
    tally.judge(status, lines, expected, [row["text"] for row in rows])


async def read_slowly(tally: Tally) -> None:
    """Read a stream a little at a time, but all of it."""
    await stream(tally, buffer=4096, pause_s=PAUSE_S)


async def drop(tally: Tally) -> None:
    """Send a request, or part of one, and leave at any moment."""
    texts = list(tally.translations)
    text = "\n".join(tally.random.choices(texts, k=tally.random.randint(1, 5)))
    sent = post(
        tally.random.choice(["/v1/translate", "/v1/stream"]), json.dumps({"text": text}).encode()
    )
    _, writer = await asyncio.open_connection("127.0.0.1", tally.port)
    writer.write(sent if tally.random.random() < 0.7 else sent[: tally.random.randrange(len(sent))])
    await asyncio.sleep(tally.random.expovariate(5))
    writer.transport.abort()
    tally.seen["dropped"] += 1


async def send_blank_lines(tally: Tally) -> None:
    """Stream blank lines; leave at once, after the first bytes, or when all is read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", tally.port)
    writer.write(post("/v1/stream", BLANK))
    await writer.drain()
    how = tally.random.choice(["at once", "early", "never"])
    if how == "early":
        await reader.read(1000)
    if how == "never":
        status, received = await read_response(reader)
        tally.judge(status, "blank lines", 20_000, received.count(b"\n"))
    writer.transport.abort()
    tally.seen["blank"] += 1


async def never_read(tally: Tally) -> None:
    """Pipeline requests without reading, until the server ends the connection."""
    _, writer = await _connect(tally.port, 2048, reads=False)
    writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 300)
    while not tally.is_over and not writer.transport.is_closing():
        await asyncio.sleep(0.5)
        writer.write(b"\r\n")
    writer.transport.abort()
    tally.seen["unread"] += 1


async def _connect(
    port: int, buffer: int, *, reads: bool = True
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=connection, limit=buffer)
    if not reads:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
    return reader, writer


Client = Callable[[Tally], Awaitable[None]]
CLIENTS: tuple[Client, ...] = (
    *[translate] * 10,
    *[stream] * 2,
    *[drop] * 1,
    send_blank_lines,
    read_slowly,
    never_read,
)


async def attack(tally: Tally, clients: int) -> None:
    """Let all clients do what they do, over and over, until the time is up."""

    async def repeat(client: Client) -> None:
        while not tally.is_over:
            try:
                await client(tally)
            except (ConnectionError, asyncio.IncompleteReadError):
                tally.seen[f"{client.__name__} was disconnected"] += 1
                await asyncio.sleep(0.1)

    await asyncio.gather(*(repeat(CLIENTS[number % len(CLIENTS)]) for number in range(clients)))


def probe_health(port: int, end: float, results: Connection) -> None:
    """Ask for /health until the end, each time on a new connection; send the times."""
    times = []
    while time.monotonic() < end:
        began = time.perf_counter()
        answer = b""
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 10) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = connection.recv(4096)
        is_ok = answer.startswith(b"HTTP/1.1 200")
        times.append(1000 * (time.perf_counter() - began) if is_ok else float("inf"))
        time.sleep(0.05)
    results.send(times)


async def watch_memory(pid: int, end: float) -> list[tuple[float, float]]:
    """Return the resident MiB every 5 seconds, each with the seconds since the start."""
    began, found = time.monotonic(), []
    while time.monotonic() < end:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        found.append((time.monotonic() - began, pages * 4096 / 2**20))
        await asyncio.sleep(5)
    return found


def memory_at(samples: list[tuple[float, float]], second: float) -> float:
    """Return the mean of the samples of the half minute before a second."""
    near = [size for at, size in samples if second - 30 <= at <= second]
    return sum(near) / len(near)


def stable_translations(model: Path, texts: list[str]) -> dict[str, str]:
    """Translate texts twice, in other batches; leave out those that differ, and say how many.

    Where two hypotheses are equally likely up to rounding, the batch decides, with and without a
    server.
    """
    translator = transduce.load(model, "cpu")
    alone = [one.text for text in texts for one in translator.translate([text])]
    together = [one.text for one in translator.translate(texts)]
    found = {t: one for t, one, other in zip(texts, alone, together, strict=True) if one == other}
    print(f"{len(texts):,} texts; {len(texts) - len(found)} left out, which rounding decides")
    return found


def prepare(model: Path, lines: list[str], port: int, minutes: float) -> Tally:
    """Choose parts of sentences, of random lengths, and translate them without a server."""
    draw = random.Random(1)  # noqa: S311 - for the same texts in every run
    long = [line.split() for line in lines if len(line.split()) > 3]
    chosen = {" ".join(words[: draw.randint(1, 50)]) for words in draw.sample(long, TEXTS)}
    translations = stable_translations(model, sorted(chosen))
    ordered = list(translations)
    documents = [
        [draw.choice(["", "", draw.choice(ordered)]) for _ in range(draw.randint(5, 60))]
        for _ in range(DOCUMENTS)
    ]
    end = time.monotonic() + 60 * minutes
    return Tally(port, end, translations, documents, draw)


def report(
    tally: Tally, times: list[float], samples: list[tuple[float, float]], after: float
) -> bool:
    """Print what was seen; return whether the claims hold."""
    ordered = sorted(times)
    p50, p99 = (ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.99))
    early, late = memory_at(samples, 60 * after), memory_at(samples, samples[-1][0])
    print(", ".join(f"{count:,} {name}" for name, count in sorted(tally.seen.items())))
    print(
        f"/health: {len(times):,} times, p50 {p50:.0f} ms, p99 {p99:.0f} ms, "
        f"most {ordered[-1]:.0f} ms"
    )
    for wrong in tally.wrong[:5]:
        print(f"wrong: {wrong}")
    print(f"memory: {early:.0f} MiB after minute {after:g}, {late:.0f} MiB at the end")
    print(
        "each half minute:",
        *(f"{memory_at(samples, at):.0f}" for at in range(30, int(samples[-1][0]), 30)),
    )
    is_bounded = late <= (1 + GROWTH) * early
    return p99 <= HEALTH_MS and not tally.seen["wrong"] and not tally.seen["lost"] and is_bounded


def main() -> None:
    """Start the server and the clients; exit with 1 unless all claims hold."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("sentences", type=Path, help="one a line")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--settle", type=float, default=3, help="minutes before memory is compared")
    given = parser.parse_args()
    lines = given.sentences.read_text(encoding="utf-8").splitlines()[:3000]
    with served(given.model) as (process, port):
        tally = prepare(given.model, lines, port, given.minutes)
        receiver, sender = multiprocessing.Pipe(duplex=False)
        prober = multiprocessing.Process(target=probe_health, args=(port, tally.end, sender))
        prober.start()

        async def run() -> list[tuple[float, float]]:
            watching = asyncio.create_task(watch_memory(process.pid, tally.end))
            await attack(tally, given.clients)
            return await watching

        samples = asyncio.run(run())
        times = receiver.recv()
        prober.join()
    holds = report(tally, times, samples, given.settle)
    print("all claims hold" if holds else "not all claims hold")
    sys.exit(not holds)


if __name__ == "__main__":
    main()
