"""Pairs to ids in several processes, in order and in bounded memory."""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import numpy as np
from numpy.typing import NDArray

from transduce.data.cleaning import Sieve
from transduce.data.corpus import Pair
from transduce.errors import TransduceError
from transduce.text.tokenizer import Tokenizer

Ids = NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class Side:
    """Ids of several sentences, one after another."""

    ids: Ids
    lengths: NDArray[np.int64]

    def only(self, chosen: NDArray[np.bool_]) -> "Side":
        """Leave out the sentences that are not chosen."""
        return Side(self.ids[np.repeat(chosen, self.lengths)], self.lengths[chosen])


@dataclass(frozen=True)
class Encoded:
    """What became of a batch of pairs; a pair with a fault has no ids."""

    faults: list[str | None]
    digests: list[int]
    src: Side
    tgt: Side


@dataclass(frozen=True)
class Encoder:
    """How pairs are sieved and encoded; small enough to be sent to every process."""

    tokenizer: Path
    sieve: Sieve

    def encode_all(
        self, batches: Iterator[list[Pair]], *, processes: int
    ) -> Iterator[tuple[list[Pair], Encoded]]:
        """Stream the batches with what became of them, a few batches ahead of the reader."""
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, context, _start, (self,)) as pool:
            waiting: deque[tuple[list[Pair], Future[Encoded]]] = deque()
            try:
                for batch in batches:
                    with _ctrl_c_held_back():
                        waiting.append((batch, pool.submit(_encode, batch)))
                    if len(waiting) > 2 * processes:
                        yield _finished(*waiting.popleft())
                while waiting:
                    yield _finished(*waiting.popleft())
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """Let Ctrl-C wait; a process that is started meanwhile never gets it, even while it loads."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _finished(batch: list[Pair], future: Future[Encoded]) -> tuple[list[Pair], Encoded]:
    try:
        return batch, future.result()
    except BrokenProcessPool as broken:
        raise TransduceError(
            "a process that encodes text was killed, perhaps for want of memory; "
            "run again, with fewer processes if it happens again"
        ) from broken


class _Process:
    """What a worker process keeps between batches."""

    encoder: Encoder
    tokenizer: Tokenizer


def _start(encoder: Encoder) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is told, and ends this process
    Thread(target=_end_with_parent, daemon=True).start()
    _Process.encoder = encoder
    _Process.tokenizer = Tokenizer.load(encoder.tokenizer)


def _end_with_parent() -> None:
    """Keep no process waiting for a parent that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _encode(batch: list[Pair]) -> Encoded:
    sieve = _Process.encoder.sieve
    faults = sieve.faults(batch)
    fit = [pair for pair, fault in zip(batch, faults, strict=True) if fault is None]
    return Encoded(
        faults,
        sieve.digests(batch) if sieve.rules else [],
        _side(_Process.tokenizer.encode_batch([pair.src for pair in fit])),
        _side(_Process.tokenizer.encode_targets([pair.tgt for pair in fit])),
    )


def _side(rows: list[list[int]]) -> Side:
    lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
    kind = id_type(len(_Process.tokenizer))
    ids = np.fromiter((i for row in rows for i in row), dtype=kind, count=int(lengths.sum()))
    return Side(ids, lengths)


def id_type(vocab_size: int) -> np.dtype[np.unsignedinteger]:
    """Choose two bytes an id where they are enough."""
    return np.dtype(np.uint16 if vocab_size <= 2**16 else np.uint32)
