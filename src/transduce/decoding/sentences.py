"""Long texts: cut where sentences end, if need be elsewhere, and their translations rejoined."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

CountTokens = Callable[[Sequence[str]], list[int]]
"""How many tokens each text has."""

# Each finds places after which a text may be cut, the better ones first. A closing quotation mark
# or bracket still belongs to the sentence; where a script has no spaces, none is waited for.
_PLACES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<=[.!?…;])[\"'”’»)\]]*(?=\s)|(?<=[。！？；])[」』”’）]*",
        r"(?<=[,:])(?=\s)|(?<=[，、：])",
        r"(?=\s)",
    )
)


class Piece(NamedTuple):
    """A part of a text, without space around it."""

    text: str
    is_glued: bool = False  # it was cut off where there is no place to cut, as within a word


def cut(text: str, *, max_tokens: int, count_tokens: CountTokens) -> list[Piece]:
    """Cut a text into as few pieces of at most max_tokens as good places to cut allow.

    A single character that has more tokens than that stays whole.
    """
    return list(_cut(text.strip(), max_tokens, count_tokens, places=_PLACES))


def join(pieces: Sequence[Piece], translations: Sequence[str]) -> str:
    """Put the translations of the pieces of one text together again."""
    joined = ""
    for piece, translation in zip(pieces, translations, strict=True):
        if joined and translation and not piece.is_glued:
            is_unspaced = _has_no_spaces(joined[-1]) and _has_no_spaces(translation[0])
            joined += "" if is_unspaced else " "
        joined += translation
    return joined


def _cut(
    text: str,
    max_tokens: int,
    count_tokens: CountTokens,
    *,
    places: tuple[re.Pattern[str], ...],
    is_glued: bool = False,
) -> Iterator[Piece]:
    """Cut at the best kind of place; what is still too long, at the next kind."""
    if not text:
        return
    [length] = count_tokens([text])
    if length <= max_tokens or len(text) == 1:
        yield Piece(text, is_glued)
        return
    if not places:
        half = len(text) // 2
        yield from _cut(text[:half], max_tokens, count_tokens, places=(), is_glued=is_glued)
        yield from _cut(text[half:], max_tokens, count_tokens, places=(), is_glued=True)
        return
    for part in _packed(_split(text, places[0]), max_tokens, count_tokens):
        rest = _cut(part, max_tokens, count_tokens, places=places[1:], is_glued=is_glued)
        for piece in rest:
            yield piece
            is_glued = False


def _split(text: str, place: re.Pattern[str]) -> list[str]:
    """Cut at every such place; the parts together are the text."""
    ends = [match.end() for match in place.finditer(text) if match.end() > 0]
    return [text[i:j] for i, j in zip([0, *ends], [*ends, len(text)], strict=True) if i < j]


def _packed(parts: list[str], max_tokens: int, count_tokens: CountTokens) -> Iterator[str]:
    """Join neighbours as long as the sum of their tokens allows."""
    packed, total = "", 0
    for part, count in zip(parts, count_tokens(parts), strict=True):
        if packed and total + count > max_tokens:
            yield packed.strip()
            packed, total = "", 0
        packed, total = packed + part, total + count
    yield packed.strip()


def _has_no_spaces(character: str) -> bool:
    """Tell the scripts and signs of Chinese and Japanese, which are written without spaces."""
    is_wide = unicodedata.east_asian_width(character) in "WF"
    return is_wide and not unicodedata.name(character, "").startswith("HANGUL")
