"""Random choices that follow from one number, the same in every version of every library."""

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")

_MASK = 2**64 - 1


class Draws:
    """The splitmix64 sequence from a state, as choices."""

    def __init__(self, state: int) -> None:
        self._state = state & _MASK

    def below(self, count: int) -> int:
        """Return a number from 0 to count - 1."""
        self._state = state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((state ^ (state >> 31)) * count) >> 64

    def one_of(self, items: Sequence[Item]) -> Item:
        """Return one of the items."""
        return items[self.below(len(items))]
