"""A few held-out sentences as the model translates them now: the same ones at each score."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transduce.data.corpus import Pair
    from transduce.training.progress import Translated

SHOWN = 2
WIDTH = 64
"""Longer lines are cut: after a few steps, a model repeats itself endlessly."""
SHORT = 20
"""Characters below which a sentence shows little."""


class Samples:
    """Chooses the sentences to show, and when."""

    def __init__(self, *, every_s: float = 0, clock: Callable[[], float] = time.monotonic) -> None:
        """Show them at most once in `every_s` seconds."""
        self._every_s, self._clock = every_s, clock
        self._shown_at = float("-inf")

    def lines(self, found: "Translated") -> list[str]:
        """Return the lines to show now, if they are due."""
        if self._clock() - self._shown_at < self._every_s:
            return []
        self._shown_at = self._clock()
        rows: list[str] = []
        for place in choose(found.pairs):
            pair = found.pairs[place]
            rows.append(f"  source       {_cut(pair.src)}")
            rows.append(f"  reference    {_cut(pair.tgt)}")
            rows.append(f"  translation  {_cut(found.hypotheses[place])}")
        return rows


def choose(pairs: "Sequence[Pair]") -> list[int]:
    """Return which pairs to show: the first that fit into a line and are not very short."""
    from rich.cells import cell_len

    def drawback(place: int) -> tuple[bool, bool, int]:
        src, tgt = pairs[place]
        return max(cell_len(src), cell_len(tgt)) > WIDTH, cell_len(src) < SHORT, place

    return sorted(range(len(pairs)), key=drawback)[:SHOWN]


def _cut(text: str) -> str:
    from rich.text import Text

    shown = Text(text.strip())
    shown.truncate(WIDTH, overflow="ellipsis")
    return shown.plain
