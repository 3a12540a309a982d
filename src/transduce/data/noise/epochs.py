"""The store of an epoch with noise, computed in processes beside the training.

All of it follows from the store, the rates, the seed and the epoch, so a resumed run has the same.
"""

import os
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Self

import numpy as np
from numpy.typing import NDArray

from transduce.data.encoding.side import Side
from transduce.data.noise.noised import NoisedSentences
from transduce.data.noise.pairs import DrawnKinds, PairNoise
from transduce.data.store import Store
from transduce.data.worker_processes import WorkerPool, follow_parent, result_of
from transduce.text.special_ids import UNK_ID
from transduce.text.tokenizer import Tokenizer

CHUNK_PAIRS = 8000
MAX_PROCESSES = 4
FEW_PAIRS = 3000
"""Noise in up to this many pairs is made in this process: starting another takes longer."""
SAMPLED_PAIRS = 4096
"""Pairs by which it is estimated how much longer noise makes each side."""

Pairs = tuple[Side, Side]


class EpochNoise:
    """Puts noise into a share of the pairs of a store, another in each epoch.

    With subword dropout, every pair is cut into other subwords after that.
    """

    def __init__(
        self, rates: Mapping[str, float], tokenizer: Path, *, subword_dropout: float = 0.0
    ) -> None:
        """Take the rate of each kind of noise, and the vocabulary of the stores to come."""
        self._rates = dict(rates)
        self._shared = tokenizer, subword_dropout
        self._here = _pair_noise(self._shared)  # which checks the vocabulary too
        # Where a stage of a run ends, a thread may still prepare an epoch that is not needed.
        self._one_at_a_time = Lock()
        self._pool: WorkerPool | None = None
        self._is_closed = False

    def store(self, clean: Store, *, seed: int, epoch: int, max_lengths: tuple[int, int]) -> Store:
        """Return the store of an epoch.

        A pair stays as it is if noise makes it longer than `max_lengths`, the tokens allowed on
        each side, without EOS, if nothing is left of a side, or if its target could not be spelled:
        nobody should learn that.
        """
        drawn = self._drawn(clean, seed, epoch)
        with self._one_at_a_time:
            made = list(self._chunks(clean, drawn))
        src, tgt = (_concatenated([pair[side] for pair in made], clean) for side in (0, 1))
        fits = (src.lengths <= max_lengths[0]) & (tgt.lengths <= max_lengths[1])
        fits &= ~_has_unknown(tgt) & (src.lengths > 0) & (tgt.lengths > 0)
        places = np.full(len(clean), -1, dtype=np.int32)
        places[drawn.pairs[fits]] = np.arange(int(fits.sum()), dtype=np.int32)
        src, tgt, links = src.only(fits), tgt.only(fits), None
        if clean.links is not None:  # those of pairs with noise are not known
            none = Side(np.zeros(tgt.ids.size, dtype=clean.links.ids.dtype), tgt.lengths)
            links = NoisedSentences.over(clean.links, none, places)
        return replace(
            clean,
            src=NoisedSentences.over(clean.src, src, places),
            tgt=NoisedSentences.over(clean.tgt, tgt, places),
            links=links,
        )

    def sampled_lengths(
        self, clean: Store, pairs: NDArray[np.int64], *, seed: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the lengths of both sides of some of these pairs, with noise, without EOS."""
        chosen = sampled_pairs(pairs)
        drawn = self._drawn(clean, seed, epoch=0)
        drawn = drawn.part(np.isin(drawn.pairs, chosen))
        with self._one_at_a_time:
            noised = self._here.noised(*_sides(clean, drawn), drawn)
        found = []
        for clean_side, side in zip((clean.src, clean.tgt), noised, strict=True):
            lengths = clean_side.lengths_of(chosen)
            lengths[np.searchsorted(chosen, drawn.pairs)] = side.lengths
            found.append(lengths)
        return found[0], found[1]

    def close(self) -> None:
        """End the processes."""
        self._is_closed = True
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _drawn(self, clean: Store, seed: int, epoch: int) -> DrawnKinds:
        """Draw the kinds of noise of an epoch; pairs with an empty side get none."""
        every = self._shared[1] > 0
        drawn = DrawnKinds.of_epoch(len(clean), self._rates, seed=seed, epoch=epoch, every=every)
        src, tgt = (side.lengths_of(drawn.pairs) for side in (clean.src, clean.tgt))
        return drawn.part((src > 0) & (tgt > 0))

    def _chunks(self, clean: Store, drawn: DrawnKinds) -> Iterator[Pairs]:
        parts = [drawn.part(slice(i, i + CHUNK_PAIRS)) for i in range(0, len(drawn), CHUNK_PAIRS)]
        if len(drawn) <= FEW_PAIRS:
            yield from (self._here.noised(*_sides(clean, part), part) for part in parts)
            return
        assert not self._is_closed, "noise is asked for after the end"
        if self._pool is None:
            self._pool = WorkerPool(_processes(), _start, self._shared)
        waiting: deque[Future[Pairs]] = deque()
        for part in parts:
            waiting.append(self._pool.submit(_noised, *_sides(clean, part), part))
            if len(waiting) > 2 * MAX_PROCESSES:
                yield result_of(waiting.popleft())
        while waiting:
            yield result_of(waiting.popleft())


def sampled_pairs(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return some of these pairs, spread evenly."""
    places = np.linspace(0, pairs.size - 1, min(pairs.size, SAMPLED_PAIRS)).astype(np.int64)
    found: NDArray[np.int64] = pairs[places]
    return found


def _processes() -> int:
    """Return how many processes prepare an epoch: most processors are left to the training."""
    return max(1, min(MAX_PROCESSES, (os.cpu_count() or 1) // 4))


def _sides(store: Store, drawn: DrawnKinds) -> Pairs:
    src, tgt = (
        Side(side.gather(drawn.pairs), side.lengths_of(drawn.pairs))
        for side in (store.src, store.tgt)
    )
    return src, tgt


def _concatenated(parts: list[Side], like: Store) -> Side:
    ids = np.empty(0, dtype=like.src.ids.dtype)
    return Side(
        np.concatenate([ids, *(part.ids for part in parts)]),
        np.concatenate([np.empty(0, dtype=np.int64), *(part.lengths for part in parts)]),
    )


def _has_unknown(side: Side) -> NDArray[np.bool_]:
    """Return which sentences have an unknown token."""
    unknown = np.concatenate([[0], np.cumsum(side.ids == UNK_ID)])
    ends = np.cumsum(side.lengths)
    found: NDArray[np.bool_] = unknown[ends] > unknown[ends - side.lengths]
    return found


class _Process:
    """What a process keeps between chunks."""

    noise: PairNoise


def _pair_noise(shared: tuple[Path, float]) -> PairNoise:
    tokenizer, subword_dropout = shared
    return PairNoise(Tokenizer.load(tokenizer), subword_dropout=subword_dropout)


def _start(shared: tuple[Path, float]) -> None:
    follow_parent()
    _Process.noise = _pair_noise(shared)


def _noised(src: Side, tgt: Side, drawn: DrawnKinds) -> Pairs:
    return _Process.noise.noised(src, tgt, drawn)
