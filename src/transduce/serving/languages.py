"""Models as `transduce serve` names them, with the languages they translate between."""

import re

from transduce.translation.languages import LanguagePair as LanguagePair  # part of this module too
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
