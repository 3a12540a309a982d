"""Pairs of tokens that occur together, each with a place of its own: a hash table in an array.

It is looked up for millions of pairs at once, in a few array operations, and its size is bounded.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.data.batching import splitmix64

Keys = NDArray[np.uint64]
Places = NDArray[np.int64]

NOTHING = np.uint64(2**64 - 1)
"""In an empty slot: no pair of ids has this key."""
MIN_SLOTS = 1 << 12
MOST_FULL = 0.7
"""The share of slots that may be taken: searches get long in a table that is almost full."""


def pair_keys(src: NDArray[np.integer], tgt: NDArray[np.integer]) -> Keys:
    """Return one number for each pair of a source id and a target id."""
    return (src.astype(np.uint64) << np.uint64(32)) | tgt.astype(np.uint64)


@dataclass
class PairTable:
    """A hash table with linear probing; a pair's place is the number of its slot."""

    slots: Keys
    taken: int = 0

    @classmethod
    def of(cls, batches: Iterable[Keys], *, max_slots: int) -> "PairTable":
        """Make a table of all keys, which are different within a batch; if full, of the first."""
        table = cls(np.full(MIN_SLOTS, NOTHING))
        for keys in batches:
            new = keys[table.find(keys) < 0]
            while new.size > table.room and table.slots.size < max_slots:
                held = table.slots[table.slots != NOTHING]
                table = cls(np.full(2 * table.slots.size, NOTHING))
                table._add(held)
            table._add(new[: table.room])
        return table

    @property
    def room(self) -> int:
        """How many more keys may be added."""
        return max(0, int(MOST_FULL * self.slots.size) - self.taken)

    def _add(self, keys: Keys) -> None:
        """Add keys that are all different and new."""
        self.taken += keys.size
        places = self._first_places(keys)
        while keys.size:
            free = self.slots[places] == NOTHING
            self.slots[places[free]] = keys[free]  # of several for one slot, one stays
            missing = self.slots[places] != keys
            keys, places = keys[missing], self._next(places[missing])

    def find(self, keys: Keys) -> Places:
        """Return the place of each key; -1: it is not in the table."""
        places = self._first_places(keys)
        held = self.slots[places]
        rest = np.flatnonzero((held != keys) & (held != NOTHING))
        while rest.size:
            places[rest] = self._next(places[rest])
            held = self.slots[places[rest]]
            rest = rest[(held != keys[rest]) & (held != NOTHING)]
        return np.where(self.slots[places] == keys, places, -1)

    def _first_places(self, keys: Keys) -> Places:
        return (splitmix64(keys) & np.uint64(self.slots.size - 1)).astype(np.int64)

    def _next(self, places: Places) -> Places:
        following: Places = (places + 1) & (self.slots.size - 1)
        return following
