"""Models as `transduce serve` names them, with the languages they translate between."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from transduce.translation.languages import LanguagePair as LanguagePair  # part of this module too
from transduce.translation.languages import language_pairs as language_pairs
from transduce.translation.languages import name_of as name_of
from transduce.translation.languages import training_pair as training_pair

_CODE = r"[a-z]{2,3}(?:-(?:[A-Z]{2}|[A-Z][a-z]{3}))?"
_MODEL_ARGUMENT = re.compile(rf"(?P<source>{_CODE})-(?P<target>{_CODE})=(?P<path>.+)", re.DOTALL)


def parse_model_argument(argument: str) -> tuple[LanguagePair | None, str]:
    """Parse `en-de=PATH`, or a path alone."""
    match = _MODEL_ARGUMENT.fullmatch(argument)
    if match is None:
        return None, argument
    return LanguagePair(match["source"], match["target"]), match["path"]


@dataclass(frozen=True)
class Route:
    """The models that a text passes through, one or two, from its language to the wanted one."""

    legs: tuple[LanguagePair, ...]

    @property
    def pair(self) -> LanguagePair:
        """The languages at both ends."""
        return LanguagePair(self.legs[0].source, self.legs[-1].target)

    @property
    def via(self) -> str | None:
        """The language between two models; None: there is one model."""
        return self.legs[0].target if len(self.legs) > 1 else None


def find_routes(pairs: Iterable[LanguagePair]) -> dict[LanguagePair, Route]:
    """Return how each pair of languages can be translated, if possible by one model.

    Otherwise by two: through English where that is possible, else the first language by its code.
    """
    known = sorted(pairs)
    routes = {pair: Route((pair,)) for pair in known}
    by_pivot = sorted(known, key=lambda pair: (pair.target != "en", pair.target))
    for first in by_pivot:
        for second in known:
            ends = LanguagePair(first.source, second.target)
            if first.target == second.source and ends.source != ends.target:
                routes.setdefault(ends, Route((first, second)))
    return routes
