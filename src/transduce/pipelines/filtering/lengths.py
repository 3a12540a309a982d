"""How far the lengths of a pair are from what is typical of its corpus (Gale & Church 1993)."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Self

from transduce.data.corpus import Pair

FIT_PAIRS = 10_000
LENGTH_WEIGHT = 0.3
"""Nats per token that a standard deviation of the length costs; chosen on planted pairs."""
MIN_DEVIATION = 0.25
"""So that in a corpus of equal lengths a character more does not count as far."""
_NORMAL = 1.4826  # the standard deviation of a normal distribution over its median deviation


@dataclass(frozen=True)
class LengthModel:
    """What is typical of the lengths of a corpus, in characters."""

    ratio: float  # characters of the target for one of the source
    centre: float
    deviation: float  # as a standard deviation

    @classmethod
    def fit(cls, pairs: Iterable[Pair]) -> Self:
        """Measure pairs by medians, which few bad ones hardly move."""
        lengths = [(len(src), len(tgt)) for src, tgt in pairs if src and tgt] or [(1, 1)]
        ratio = median(tgt / src for src, tgt in lengths)
        found = [_difference(*both, ratio) for both in lengths]
        centre = median(found)
        spread = median(abs(one - centre) for one in found)
        return cls(ratio, centre, max(_NORMAL * spread, MIN_DEVIATION))

    def distance(self, pair: Pair) -> float:
        """Return how many standard deviations the lengths of a pair are from the typical ones."""
        found = _difference(len(pair.src), len(pair.tgt), self.ratio)
        return abs(found - self.centre) / self.deviation


def _difference(src: int, tgt: int, ratio: float) -> float:
    """Characters of the target too many; the variance grows with the length, so by its root."""
    return (tgt - ratio * src) / math.sqrt(max(1.0, (tgt / ratio + src) / 2))
