"""Which sentences make which batch: so many tokens on either side, of like lengths (§5.1).

A plan for an epoch follows from (lengths, budget, seed, epoch) alone, so any batch of any epoch is
reached directly. Sentences are sorted by length with ties in random order and cut into batches;
the batches are shuffled.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Lengths = NDArray[np.integer]
Indices = NDArray[np.int64]


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
        sentences = _by_length(src, tgt, _noise(src.size, seed, epoch))
        ends = _cut(src[sentences], tgt[sentences], max_tokens)
        starts = np.concatenate(([0], ends[:-1])).astype(np.int64)
        order = np.argsort(_noise(starts.size, seed, ~epoch))
        sizes = (ends - starts)[order]
        shuffled = [sentences[starts[batch] : ends[batch]] for batch in order]
        return cls(np.concatenate(shuffled), np.concatenate(([0], np.cumsum(sizes))))

    def __len__(self) -> int:
        return self.starts.size - 1

    def batch(self, index: int) -> Indices:
        """Name the sentences of one batch."""
        return self.sentences[self.starts[index] : self.starts[index + 1]]

    def steps(self, world: int) -> int:
        """Count the steps that `world` processes take, each with a batch of its own."""
        return -(-len(self) // world)

    def share(self, step: int, *, rank: int, world: int) -> Indices:
        """Name the sentences that one of `world` processes takes in a step.

        A step takes the next `world` batches; the last one deals out the sentences that are left,
        so that all processes take part in every step. How many batches are done says where an epoch
        stands, whatever the number of processes.
        """
        first = step * world
        if first + world <= len(self):
            return self.batch(first + rank)
        return self.sentences[self.starts[first] :][rank::world]


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


def _noise(count: int, seed: int, epoch: int) -> NDArray[np.uint64]:
    """Give each number below count a random one: the splitmix64 sequence from (seed, epoch).

    NumPy's own generators may draw differently in its next version; a run's order must not change.
    """
    state = _mixed(np.array([seed & _MASK], dtype=np.uint64)) ^ np.uint64(epoch & _MASK)
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return _mixed(_mixed(state) + steps)


_MASK = 2**64 - 1


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
