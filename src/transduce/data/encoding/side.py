"""The ids of one side of several pairs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.data.batching import splitmix64
from transduce.text.tokenizer import Tokenizer

Ids = NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class Side:
    """The ids of several sentences, concatenated."""

    ids: Ids
    lengths: NDArray[np.int64]

    def only(self, chosen: NDArray[np.bool_]) -> "Side":
        """Return the chosen sentences."""
        if chosen.all():
            return self
        return Side(self.ids[np.repeat(chosen, self.lengths)], self.lengths[chosen])

    @classmethod
    def of_ranges(cls, ids: Ids, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> "Side":
        """Concatenate ranges that lie anywhere in `ids`."""
        lengths = ends - starts
        sums = np.cumsum(lengths)
        shifts = np.repeat(ends - sums, lengths)
        return cls(ids[np.arange(lengths.sum()) + shifts], lengths)

    def hashes(self) -> NDArray[np.uint64]:
        """Return a hash of the ids of each sentence, none of which may be empty."""
        if not self.lengths.size:
            return np.empty(0, dtype=np.uint64)
        starts = np.cumsum(self.lengths) - self.lengths
        places = np.arange(self.ids.size) - np.repeat(starts, self.lengths)
        tokens = splitmix64(
            self.ids.astype(np.uint64) + (places.astype(np.uint64) << np.uint64(32))
        )
        hashes: NDArray[np.uint64] = np.add.reduceat(tokens, starts)
        return hashes


def id_type(tokenizer: Tokenizer) -> np.dtype[np.unsignedinteger]:
    """Return the type of ids: two bytes where they are enough for both sides, otherwise four."""
    most = max(len(tokenizer.source), len(tokenizer.target))
    return np.dtype(np.uint16 if most <= 2**16 else np.uint32)
