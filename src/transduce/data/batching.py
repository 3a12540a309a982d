"""Which sentences form which batch, under a limit of tokens per side (§5.1).

The plan of an epoch depends on (lengths, token limit, seed, epoch) alone, so any batch of any epoch
can be computed directly. For padded batches, sentences are sorted by length with ties in random
order, cut into batches, and the batches are shuffled. For packed batches lengths do not matter:
sentences come in random order.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Lengths = NDArray[np.integer]
Indices = NDArray[np.int64]

CAPACITY_MULTIPLE = 64
"""Capacities are multiples of this: GPUs multiply matrices of such sizes fastest."""
SPARE_CAPACITY = 0.005
"""In a batch of random sentences, the shorter side is at times this much longer than on average."""
IMBALANCE_TOKENS = 16
"""When sentences are dealt to rows, the fullest row at times holds this many more than the mean."""


class RowCapacity(NamedTuple):
    """How many tokens fit into a packed row on each side."""

    src: int
    tgt: int

    @classmethod
    def within(cls, max_tokens: int, src: Lengths, tgt: Lengths) -> Self:
        """Give the side with more tokens all of max_tokens, and the other side its proportion.

        max_tokens is rounded down to a multiple of CAPACITY_MULTIPLE, the other side up.
        """
        totals = [int(side.sum(dtype=np.int64)) for side in (src, tgt)]
        most = max(CAPACITY_MULTIPLE, max_tokens // CAPACITY_MULTIPLE * CAPACITY_MULTIPLE)
        shares = (min(1.0, (1 + SPARE_CAPACITY) * total / max(1, *totals)) for total in totals)
        return cls(*(_rounded_up(max(1, most * share)) for share in shares))

    @classmethod
    def of_longest(cls, src: Lengths, tgt: Lengths) -> Self:
        """Return a capacity that holds any single one of these pairs."""
        return cls(*(_rounded_up(side.max(initial=1)) for side in (src, tgt)))

    def holds(self, src: Lengths, tgt: Lengths) -> bool:
        """Whether all of these sentences fit together."""
        return bool(src.sum() <= self.src and tgt.sum() <= self.tgt)

    def divided_by(self, parts: float) -> Self:
        """Return the capacity of each of `parts` rows that share the content of this one."""
        needed = (_rounded_up(tokens / parts + IMBALANCE_TOKENS) for tokens in self)
        return type(self)(*map(min, self, needed))

    def limited_to(self, max_tokens: int) -> Self:
        """Divide it into as few rows as needed for at most max_tokens per side; return a row's."""
        parts = math.ceil(max(self) / max(1, max_tokens - IMBALANCE_TOKENS))
        return type(self)(*(min(max_tokens, tokens) for tokens in self.divided_by(parts)))


@dataclass(frozen=True)
class EpochPlan:
    """The batches of one epoch, in order."""

    sentences: Indices  # of all batches, one batch after another
    starts: Indices  # where each batch starts in `sentences`, and where the last one ends

    @classmethod
    def padded(cls, src: Lengths, tgt: Lengths, *, max_tokens: int, seed: int, epoch: int) -> Self:
        """Plan batches of at most max_tokens on each side, padding included.

        A longer sentence forms a batch of its own.
        """
        assert max_tokens > 0, f"a limit of {max_tokens} tokens"
        src, tgt = src.astype(np.int64), tgt.astype(np.int64)
        sentences = _by_length(src, tgt, hash_noise(src.size, seed, epoch))
        ends = _cut_padded(src[sentences], tgt[sentences], max_tokens)
        starts = np.concatenate(([0], ends)).astype(np.int64)[:-1]
        order = np.argsort(hash_noise(starts.size, seed, ~epoch))
        sizes = (ends - starts)[order]
        shuffled = [sentences[starts[batch] : ends[batch]] for batch in order]
        return cls(
            np.concatenate([sentences[:0], *shuffled]), np.concatenate(([0], np.cumsum(sizes)))
        )

    @classmethod
    def packed(
        cls, src: Lengths, tgt: Lengths, capacity: RowCapacity, *, seed: int, epoch: int
    ) -> Self:
        """Plan batches of packed sequences that fill one row on each side.

        A pair that exceeds the capacity forms a batch of its own, and ends the one before it.
        """
        sentences = np.argsort(hash_noise(src.size, seed, epoch))
        ends = _cut_packed(src[sentences], tgt[sentences], capacity)
        return cls(sentences, np.concatenate(([0], ends)).astype(np.int64))

    def renumbered(self, numbers: Indices) -> Self:
        """Replace sentence i by numbers[i]: the plan was made for a selection of sentences."""
        return replace(self, sentences=numbers[self.sentences])

    def __len__(self) -> int:
        return self.starts.size - 1

    def batch(self, index: int) -> Indices:
        """Return the sentences of one batch."""
        assert 0 <= index < len(self), f"batch {index} of {len(self)}"
        return self.sentences[self.starts[index] : self.starts[index + 1]]

    def step_sentences(self, done: int, *, count: int = 1, rank: int, world: int) -> list[Indices]:
        """Return the sentences of each batch that one of `world` processes takes in a step.

        A step takes the `count` batches that follow the first `done`. Whatever the number of
        processes, together they take the same sentences, so the number of batches done is the
        position in the epoch. Batches are dealt in turn. If there are fewer batches than processes,
        batches are split; a process gets none only if a batch has fewer sentences than parts.
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


def pack_rows(src: Lengths, tgt: Lengths, capacity: RowCapacity) -> list[Indices]:
    """Pack sentences into few rows of similar fill; a pair above the capacity gets its own row."""
    shares = np.stack([src / capacity.src, tgt / capacity.tgt], axis=1)
    needed = shares.max(axis=1)
    alone = np.flatnonzero(needed > 1)
    longest_first = np.argsort(-needed, kind="stable")[alone.size :]
    sums = (int(side[longest_first].sum()) for side in (src, tgt))
    rows = max(-(-tokens // most) for tokens, most in zip(sums, capacity, strict=True))
    while True:
        dealt = _deal(shares.tolist(), longest_first.tolist(), rows)
        if all(capacity.holds(src[row], tgt[row]) for row in dealt):
            return [*dealt, *alone[:, None]]
        rows += 1


def mix_corpora(ends: Sequence[int], weights: Sequence[float], *, seed: int, epoch: int) -> Indices:
    """Return the sentences that an epoch takes from concatenated corpora that end at `ends`.

    A corpus of weight 2 is taken twice; of one of weight 0.5, a different half in each epoch.
    """
    assert len(ends) == len(weights), f"{len(weights)} weights for {len(ends)} corpora"
    chance = hash_noise(ends[-1], seed, epoch ^ 1 << 40) / 2.0**64
    parts = []
    for start, end, weight in zip([0, *ends], ends, weights, strict=False):
        times = int(weight) + (chance[start:end] < weight - int(weight))
        parts.append(np.repeat(np.arange(start, end), times))
    return np.concatenate(parts)


def hash_noise(count: int, seed: int, epoch: int) -> NDArray[np.uint64]:
    """Return `count` pseudo-random numbers: the splitmix64 sequence from (seed, epoch).

    NumPy's generators may draw differently in its next version; a run's order must not change.
    """
    state = splitmix64(np.array([seed & _MASK], dtype=np.uint64)) ^ np.uint64(epoch & _MASK)
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return splitmix64(splitmix64(state) + steps)


def _by_length(src: Lengths, tgt: Lengths, ties: NDArray[np.uint64]) -> Indices:
    """Sort so that neighbours have similar lengths on both sides.

    Sort by the longer side, then by the difference of the sides: ascending for even lengths and
    descending for odd ones, so that the shorter side changes little from one length to the next.
    """
    longer = np.maximum(src, tgt)
    difference = np.where(longer % 2 == 0, src - tgt, tgt - src)
    return np.lexsort((ties, difference, longer))


def _cut_padded(src: Lengths, tgt: Lengths, max_tokens: int) -> Indices:
    """Find the ends of the longest runs whose padded size is at most max_tokens on both sides."""
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


def _rounded_up(tokens: float) -> int:
    return CAPACITY_MULTIPLE * math.ceil(tokens / CAPACITY_MULTIPLE)


def _cut_packed(src: Lengths, tgt: Lengths, capacity: RowCapacity) -> Indices:
    """Find the ends of the longest runs that fit the capacity on both sides."""
    src_sums, tgt_sums = (np.cumsum(side, dtype=np.int64) for side in (src, tgt))
    ends: list[int] = []
    start = 0
    while start < src.size:
        before = (src_sums[start - 1], tgt_sums[start - 1]) if start else (0, 0)
        fitting = min(
            int(np.searchsorted(sums, taken + most, side="right"))
            for sums, taken, most in zip((src_sums, tgt_sums), before, capacity, strict=True)
        )
        start = max(start + 1, fitting)
        ends.append(start)
    return np.array(ends, dtype=np.int64)


def _deal(shares: list[list[float]], longest_first: list[int], rows: int) -> list[Indices]:
    """Put each sentence into the row whose fuller side is then least full."""
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


def splitmix64(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of each number: a good hash, and the steps of a generator."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
