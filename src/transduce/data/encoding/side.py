"""The ids of one side of several pairs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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


def id_type(tokenizer: Tokenizer) -> np.dtype[np.unsignedinteger]:
    """Return the type of ids: two bytes where they are enough for both sides, otherwise four."""
    most = max(len(tokenizer.source), len(tokenizer.target))
    return np.dtype(np.uint16 if most <= 2**16 else np.uint32)
