"""Which language a text is in, by py3langid (an extra): naive Bayes over its bytes."""

import re
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, Self

from transduce.errors import InputError, how_to_install

UNDETERMINED = "und"
"""The code of ISO 639 for a text whose language is not known."""
MAX_CHARACTERS = 2_000
"""A text is judged by its beginning: more tells nothing new, and takes time."""


_MARKUP = re.compile(
    r"<(script|style)\b[^<]*(?:<(?!/\1)[^<]*)*|<!--(?:[^-]|-(?!->))*|<[^<>]{1,1000}>", re.I
)
"""Tags, comments, scripts and style sheets: what of a document is no text."""


class LanguageGuess(NamedTuple):
    """A language that a text may be in, and how likely that is, from 0 to 1."""

    code: str
    confidence: float


class LanguageDetector:
    """Ranks languages by how likely a text is in them."""

    def __init__(self) -> None:
        """Load the model; raise `InputError` if the library is not installed."""
        if find_spec("py3langid") is None:
            raise InputError(f"detecting languages needs py3langid: {how_to_install('detect')}")
        library: Any = import_module("py3langid.langid")
        self._identifier = library.LanguageIdentifier.from_model_file(
            library.MODEL_FILE, norm_probs=True
        )

    @classmethod
    def if_installed(cls) -> Self | None:
        """Return a detector, or None where the library is not installed."""
        return cls() if find_spec("py3langid") else None

    def knows(self, code: str) -> bool:
        """Return whether a language can be detected."""
        return code.partition("-")[0] in dict(self._identifier.rank(""))

    def detect(self, text: str, among: Sequence[str] | None = None) -> list[LanguageGuess]:
        """Return languages, the most likely first; with `among`, these alone.

        Confidence is measured among all languages that the library knows, so a text in none of the
        wanted ones is seen by it. A text without letters is in no language: 0 for all.
        """
        start = text[:MAX_CHARACTERS]
        has_letters = any(map(str.isalpha, start))
        ranked = {code: float(share) for code, share in self._identifier.rank(start)}
        codes = ranked if among is None else among
        guesses = [
            LanguageGuess(code, ranked.get(code.partition("-")[0], 0.0) if has_letters else 0.0)
            for code in codes
        ]
        return sorted(guesses, key=lambda guess: -guess.confidence)


def detectable(text: str, format: str) -> str:  # noqa: A002 - as users say it
    """Return the beginning of a text, by which its language is judged; of a document, no tags."""
    if format == "text":
        return text[:MAX_CHARACTERS]
    return _MARKUP.sub(" ", text[: 50 * MAX_CHARACTERS])[:MAX_CHARACTERS]
