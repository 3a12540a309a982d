"""Fake translators that tests can pause, and a running batcher."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any, cast

from tests.translation.documents.samples import tagged
from transduce.search.cancel import raise_if_cancelled
from transduce.serving.batcher import Batcher, BatchKey, FinishedBatch
from transduce.text.markup.marked import Line
from transduce.translation.options import Alternative, Options, Translation
from transduce.translation.translator import Translator


class Shouting:
    """Translates to capitals; waits at its gate, and can be cancelled there, as a search can."""

    default_options = Options()

    def __init__(self) -> None:
        self.batches: list[list[Line]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.began = threading.Semaphore(0)  # one for each batch

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def translate(self, lines: Sequence[Line], options: Options) -> list[Translation]:
        self.batches.append(list(lines))
        self.began.release()
        while not self.gate.wait(0.005):
            raise_if_cancelled()
        if "fault" in lines:
            raise RuntimeError("a fault")
        return [_shouted(line, options) for line in lines]


def _shouted(line: Line, options: Options) -> Translation:
    shouted = tagged(line, str.upper)
    ranked = tuple(
        Alternative(shouted + "!" * rank, -float(rank)) for rank in range(options.n_best)
    )
    return Translation(str(line), ranked[0].text, ranked[0].score, ranked)


def as_translator(fake: object) -> Translator:
    return cast(Translator, fake)


def key_of(fake: Shouting, **options: Any) -> BatchKey:
    return BatchKey("xx-yy", as_translator(fake), Options(**options))


class Running:
    """A running batcher, and the batches that it has reported."""

    def __init__(self, *, max_queue: int = 100, max_batch: int = 64) -> None:
        self.finished: list[FinishedBatch] = []
        self.batcher = Batcher(
            max_queue=max_queue, max_batch=max_batch, wait_s=0.001, on_batch=self.finished.append
        )

    async def __aenter__(self) -> "Running":
        self.batcher.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.batcher.close()

    def ask(self, key: BatchKey, *lines: str) -> "asyncio.Task[list[Translation]]":
        return asyncio.create_task(
            self.batcher.translate(key, lines, [1] * len(lines), deadline_s=60)
        )


async def reached(semaphore: threading.Semaphore) -> None:
    """Wait for a semaphore without blocking the event loop."""
    await asyncio.to_thread(semaphore.acquire)
