"""Noise in synthetic sources: words deleted, masked and swapped (Edunov et al. 2018)."""

from dataclasses import dataclass

from transduce.errors import InputError
from transduce.text.noise.draws import Draws

MASK = "<mask>"
"""What stands for a masked word: plain text, which the vocabulary learns as it does other words."""
_PARTS = 1_000_000


@dataclass(frozen=True)
class SourceNoise:
    """How often words are changed; words are what spaces separate."""

    delete: float = 0.1  # the probability that a word is left out
    mask: float = 0.1  # the probability that a word is masked
    swap: int = 3  # how far a word may move; 0: not at all

    def __post_init__(self) -> None:
        for name, rate in (("delete", self.delete), ("mask", self.mask)):
            if not 0 <= rate < 1:
                raise InputError(f"noise: {name}={rate:g}: use 0 or more, below 1")
        if self.swap < 0:
            raise InputError(f"noise: swap={self.swap}: use 0 or more")

    def __call__(self, text: str, *, seed: int, number: int) -> str:
        """Change the words of a line; what is drawn follows from the seed and its number alone."""
        draws = Draws((seed << 40) + number)
        words = text.split()
        kept = [word for word in words if not _happens(self.delete, draws)]
        kept = kept or words[:1]  # an empty source would teach nothing
        masked = [MASK if _happens(self.mask, draws) else word for word in kept]
        return " ".join(masked[place] for place in self._order(len(masked), draws))

    def _order(self, count: int, draws: Draws) -> list[int]:
        """Return a permutation that moves no word further than `swap` (Lample et al. 2018)."""
        if not self.swap:
            return list(range(count))
        keys = [place + (self.swap + 1) * draws.below(_PARTS) / _PARTS for place in range(count)]
        return sorted(range(count), key=lambda place: keys[place])


def _happens(probability: float, draws: Draws) -> bool:
    return draws.below(_PARTS) < probability * _PARTS
