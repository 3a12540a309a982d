"""Translators that tests can hold: what a server does does not depend on what they say."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any, cast

from transduce.decoding.options import Alternative, Options, Translation
from transduce.decoding.stop import go_on
from transduce.decoding.translator import Translator
from transduce.serving.batcher import Batcher, Done, Kind


class Shouting:
    """Answers in capitals; waits at its gate, step by step as a search does."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.began = threading.Semaphore(0)  # one for each batch

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def translate(self, lines: Sequence[str], options: Options) -> list[Translation]:
        self.batches.append(list(lines))
        self.began.release()
        while not self.gate.wait(0.005):
            go_on()
        if "fault" in lines:
            raise RuntimeError("a fault")
        return [_shouted(line, options) for line in lines]


def _shouted(line: str, options: Options) -> Translation:
    ranked = tuple(
        Alternative(line.upper() + "!" * rank, -float(rank)) for rank in range(options.n_best)
    )
    return Translation(line, ranked[0].text, ranked[0].score, ranked)


def as_translator(fake: object) -> Translator:
    return cast(Translator, fake)


def kind_of(fake: Shouting, **options: Any) -> Kind:
    return Kind("xx-yy", as_translator(fake), Options(**options))


class Running:
    """A batcher at work, and what it tells."""

    def __init__(self, *, max_queue: int = 100, max_batch: int = 64) -> None:
        self.told: list[Done] = []
        self.batcher = Batcher(
            max_queue=max_queue, max_batch=max_batch, wait_s=0.001, tell=self.told.append
        )

    async def __aenter__(self) -> "Running":
        self.batcher.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.batcher.close()

    def ask(self, kind: Kind, *lines: str) -> "asyncio.Task[list[Translation]]":
        return asyncio.create_task(
            self.batcher.translate(kind, lines, [1] * len(lines), deadline_s=60)
        )


async def reached(semaphore: threading.Semaphore) -> None:
    """Wait, as long as it takes, without holding up the event loop."""
    await asyncio.to_thread(semaphore.acquire)
