"""Memory of `transduce serve` over many requests, each with a text drawn anew.

    python benchmarks/server_memory.py MODEL SENTENCES [--requests 50000] [--clients 64] [--beam 4]
        [--words 50]

Clients on the loopback interface send parts of sentences, of random lengths, one after the other.
Every 5,000 requests the server's resident memory is printed.

The claim: at the end it is within 5 % of what it was after a fifth of the requests.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from attack_server import GROWTH, post, read_response
from serve import served

EVERY = 5_000


@dataclass
class Requests:
    """The texts that are sent, and what came of them."""

    sentences: list[list[str]]
    count: int
    beam: int
    max_words: int
    pid: int
    began: float
    random: random.Random
    sent: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    memory: dict[int, float] = field(default_factory=dict)  # MiB by the number of responses

    def next_body(self) -> bytes:
        """Write a request with a part of two sentences, of random length."""
        self.sent += 1
        words = [word for _ in range(2) for word in self.random.choice(self.sentences)]
        start = self.random.randrange(len(words))
        text = " ".join(words[start : start + self.random.randint(1, self.max_words)])
        return post("/v1/translate", json.dumps({"text": text, "beam": self.beam}).encode())

    def note(self, status: int) -> None:
        """Count a response; measure and print the memory where it is due."""
        self.statuses[status] += 1
        answered = self.statuses.total()
        if answered % EVERY == 0 or answered in (64, 500, 1_000):
            pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
            self.memory[answered] = pages * 4096 / 2**20
            seconds = time.monotonic() - self.began
            print(f"{answered:>7,} {self.memory[answered]:>7.0f} MiB {seconds:>7.0f} s", flush=True)


async def ask(port: int, requests: Requests) -> None:
    """Send requests on one connection until all are sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while requests.sent < requests.count:
        writer.write(requests.next_body())
        status, _ = await read_response(reader)
        requests.note(status)
    writer.close()


async def ask_everything(port: int, requests: Requests, clients: int) -> None:
    """Let all clients send requests."""
    await asyncio.gather(*(ask(port, requests) for _ in range(clients)))


def main() -> None:
    """Start the server and the clients; exit with 1 unless the claim holds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("sentences", type=Path, help="one a line")
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--words", type=int, default=50, help="in the longest text")
    given = parser.parse_args()
    lines = given.sentences.read_text(encoding="utf-8").splitlines()
    sentences = [words for line in lines if (words := line.split())]
    draw = random.Random(1)  # noqa: S311 - for the same texts in every run
    with served(given.model) as (process, port):
        requests = Requests(
            sentences,
            given.requests,
            given.beam,
            given.words,
            process.pid,
            time.monotonic(),
            draw,
        )
        asyncio.run(ask_everything(port, requests, given.clients))
    print(", ".join(f"{count:,} with status {code}" for code, count in requests.statuses.items()))
    early = next(size for at, size in requests.memory.items() if at >= given.requests / 5)
    late = list(requests.memory.values())[-1]
    print(f"{early:.0f} MiB after a fifth, {late:.0f} MiB at the end")
    sys.exit(late > (1 + GROWTH) * early)


if __name__ == "__main__":
    main()
