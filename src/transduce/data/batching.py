"""Which sentences make which batch: so many tokens on either side (§5.1).

A plan for an epoch follows from (lengths, budget, seed, epoch) alone, so any batch of any epoch is
reached directly. Where batches are padded, sentences are sorted by length with ties in random order
and cut into batches; the batches are shuffled. Where sentences lie end to end, their lengths do not
matter: they come in random order.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Lengths = NDArray[np.integer]
Indices = NDArray[np.int64]

ROOM_STEP = 64
SPARE_ROOM = 0.005
"""In a batch of random sentences the shorter side is longer than usual by so much at times."""
UNEVEN_TOKENS = 16
"""Where sentences are dealt to rows, the fullest holds so many more than the mean at times."""


class Room(NamedTuple):
    """How many tokens a row has room for on either side."""

    src: int
    tgt: int

    @classmethod
    def within(cls, max_tokens: int, src: Lengths, tgt: Lengths) -> Self:
        """Give the side with more tokens the whole budget, the other what it needs beside that.

        Budgets are rounded down, to what GPUs multiply fastest.
        """
        totals = [int(side.sum(dtype=np.int64)) for side in (src, tgt)]
        budget = max(ROOM_STEP, max_tokens // ROOM_STEP * ROOM_STEP)
        shares = (min(1.0, (1 + SPARE_ROOM) * total / max(1, *totals)) for total in totals)
        return cls(*(_rounded(max(1, budget * share)) for share in shares))

    @classmethod
    def of_longest(cls, src: Lengths, tgt: Lengths) -> Self:
        """Have room for each of these pairs alone."""
        return cls(*(_rounded(side.max(initial=1)) for side in (src, tgt)))

    def holds(self, src: Lengths, tgt: Lengths) -> bool:
        """Whether all of these have room together."""
        return bool(src.sum() <= self.src and tgt.sum() <= self.tgt)

    def of_piece(self, pieces: float) -> Self:
        """Have room for one of so many rows that share what lies in this one."""
        needed = (_rounded(tokens / pieces + UNEVEN_TOKENS) for tokens in self)
        return type(self)(*map(min, self, needed))

    def cut_to(self, max_tokens: int) -> Self:
        """Have room for a piece of at most so many tokens on either side."""
        pieces = math.ceil(max(self) / max(1, max_tokens - UNEVEN_TOKENS))
        return type(self)(*(min(max_tokens, tokens) for tokens in self.of_piece(pieces)))


@dataclass(frozen=True)
class Plan:
    """The batches of one epoch, in order."""

    sentences: Indices  # batch after batch
    starts: Indices  # where each batch starts in them, and where the last one ends

    @classmethod
    def of_epoch(
        cls, src: Lengths, tgt: Lengths, *, max_tokens: int, seed: int, epoch: int
    ) -> Self:
        """Plan batches of at most max_tokens on either side, padding included.

        A sentence that is longer than that makes a batch of its own.
        """
        assert max_tokens > 0, f"a budget of {max_tokens} tokens"
        src, tgt = src.astype(np.int64), tgt.astype(np.int64)
        sentences = _by_length(src, tgt, noise(src.size, seed, epoch))
        ends = _cut(src[sentences], tgt[sentences], max_tokens)
        starts = np.concatenate(([0], ends)).astype(np.int64)[:-1]
        order = np.argsort(noise(starts.size, seed, ~epoch))
        sizes = (ends - starts)[order]
        shuffled = [sentences[starts[batch] : ends[batch]] for batch in order]
        return cls(
            np.concatenate([sentences[:0], *shuffled]), np.concatenate(([0], np.cumsum(sizes)))
        )

    @classmethod
    def of_rows(cls, src: Lengths, tgt: Lengths, room: Room, *, seed: int, epoch: int) -> Self:
        """Plan batches that fill a row on either side, end to end.

        A pair that is longer than that makes a batch of its own, and cuts the one before it short.
        """
        sentences = np.argsort(noise(src.size, seed, epoch))
        ends = _cut_rows(src[sentences], tgt[sentences], room)
        return cls(sentences, np.concatenate(([0], ends)).astype(np.int64))

    def of(self, names: Indices) -> Self:
        """Read the plan as one of these sentences instead of those numbered from 0."""
        return replace(self, sentences=names[self.sentences])

    def __len__(self) -> int:
        return self.starts.size - 1

    def batch(self, index: int) -> Indices:
        """Name the sentences of one batch."""
        assert 0 <= index < len(self), f"batch {index} of {len(self)}"
        return self.sentences[self.starts[index] : self.starts[index + 1]]

    def share(self, done: int, *, count: int = 1, rank: int, world: int) -> list[Indices]:
        """Name the sentences of each batch that one of `world` processes takes in a step.

        A step takes the next `count` batches after the `done` that came before. Together the
        processes take the same sentences however many they are, so the number of batches done says
        where an epoch stands. Batches are dealt in turn; fewer batches than processes are cut, and
        only where one has fewer sentences than pieces does a process get none.
        """
        assert 0 <= done < len(self), f"batch {done} of {len(self)}"
        step = range(done, min(done + count, len(self)))
        if len(step) >= world:
            return [self.batch(index) for index in step[rank::world]]
        pieces = [
            piece
            for order, index in enumerate(step)
            for piece in np.array_split(
                self.batch(index), world // len(step) + (order < world % len(step))
            )
        ]
        return [pieces[rank]] if pieces[rank].size else []


def deal(src: Lengths, tgt: Lengths, room: Room) -> list[Indices]:
    """Deal sentences to few rows, all about equally full; one longer than the room lies alone."""
    shares = np.stack([src / room.src, tgt / room.tgt], axis=1)
    needed = shares.max(axis=1)
    alone = np.flatnonzero(needed > 1)
    longest_first = np.argsort(-needed, kind="stable")[alone.size :]
    sums = (int(side[longest_first].sum()) for side in (src, tgt))
    rows = max(-(-tokens // most) for tokens, most in zip(sums, room, strict=True))
    while True:
        dealt = _dealt(shares.tolist(), longest_first.tolist(), rows)
        if all(room.holds(src[row], tgt[row]) for row in dealt):
            return [*dealt, *alone[:, None]]
        rows += 1


def mixed(ends: Sequence[int], weights: Sequence[float], *, seed: int, epoch: int) -> Indices:
    """Name the sentences that an epoch takes of several corpora, laid end to end.

    A corpus of weight 2 is taken twice, one of weight 0.5 by half: another half each epoch.
    """
    assert len(ends) == len(weights), f"{len(weights)} weights for {len(ends)} corpora"
    chance = noise(ends[-1], seed, epoch ^ 1 << 40) / 2.0**64
    parts = []
    for start, end, weight in zip([0, *ends], ends, weights, strict=False):
        times = int(weight) + (chance[start:end] < weight - int(weight))
        parts.append(np.repeat(np.arange(start, end), times))
    return np.concatenate(parts)


def noise(count: int, seed: int, epoch: int) -> NDArray[np.uint64]:
    """Give each number below count a random one: the splitmix64 sequence from (seed, epoch).

    NumPy's own generators may draw differently in its next version; a run's order must not change.
    """
    state = _mixed(np.array([seed & _MASK], dtype=np.uint64)) ^ np.uint64(epoch & _MASK)
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return _mixed(_mixed(state) + steps)


def _by_length(src: Lengths, tgt: Lengths, noise: NDArray[np.uint64]) -> Indices:
    """Sort so that neighbours are alike on both sides.

    By the longer side, and where that is equal by the difference of the sides, up for even and
    down for odd lengths: from one length to the next, the shorter side makes no leap.
    """
    longer = np.maximum(src, tgt)
    difference = np.where(longer % 2 == 0, src - tgt, tgt - src)
    return np.lexsort((noise, difference, longer))


def _cut(src: Lengths, tgt: Lengths, max_tokens: int) -> Indices:
    """Find the ends of the longest runs that fit the budget on both sides."""
    ends: list[int] = []
    start, total = 0, src.size
    while start < total:
        window = slice(start, start + max_tokens)
        count = np.arange(1, src[window].size + 1)
        fits = (np.maximum.accumulate(src[window]) * count <= max_tokens) & (
            np.maximum.accumulate(tgt[window]) * count <= max_tokens
        )
        start += max(1, int(fits.sum()))  # once a run is too large, so is every longer one
        ends.append(start)
    return np.array(ends, dtype=np.int64)


def _rounded(tokens: float) -> int:
    return ROOM_STEP * math.ceil(tokens / ROOM_STEP)


def _cut_rows(src: Lengths, tgt: Lengths, room: Room) -> Indices:
    """Find the ends of the longest runs whose sums fit the room on both sides."""
    src_sums, tgt_sums = (np.cumsum(side, dtype=np.int64) for side in (src, tgt))
    ends: list[int] = []
    start = 0
    while start < src.size:
        before = (src_sums[start - 1], tgt_sums[start - 1]) if start else (0, 0)
        fitting = min(
            int(np.searchsorted(sums, taken + most, side="right"))
            for sums, taken, most in zip((src_sums, tgt_sums), before, room, strict=True)
        )
        start = max(start + 1, fitting)
        ends.append(start)
    return np.array(ends, dtype=np.int64)


def _dealt(shares: list[list[float]], longest_first: list[int], rows: int) -> list[Indices]:
    """Deal sentences one by one to the row whose fuller side is then least full."""
    dealt: list[list[int]] = [[] for _ in range(rows)]
    full = [(0.0, 0.0)] * rows
    for sentence in longest_first:
        src, tgt = shares[sentence]
        then = [(src_full + src, tgt_full + tgt) for src_full, tgt_full in full]
        row = min(range(rows), key=lambda row: max(then[row]))
        full[row] = then[row]
        dealt[row].append(sentence)
    return [np.sort(row) for row in dealt]


_MASK = 2**64 - 1


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
