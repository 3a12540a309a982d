"""Long texts cut into pieces, at sentence ends where possible, and their translations joined."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from transduce.text.sentences import (
    CLOSING,
    END_MARKS,
    UNSPACED_CLOSING,
    UNSPACED_END_MARKS,
)

CountTokens = Callable[[Sequence[str]], list[int]]
"""Returns the number of tokens of each text."""

# Where a text may be cut, the best kind of place first: after a sentence or a semicolon, after a
# comma or a colon, at a space.
_PLACES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?<=[.{END_MARKS};])[{CLOSING}]*(?=\s)"
        rf"|(?<=[{UNSPACED_END_MARKS}；])[{UNSPACED_CLOSING}]*",
        r"(?<=[,:])(?=\s)|(?<=[，、：])",
        r"(?=\s)",
    )
)


class Piece(NamedTuple):
    """A part of a text, without spaces around it."""

    text: str
    is_glued: bool = False  # continues the piece before it within a word: joined without a space


def cut(text: str, *, max_tokens: int, count_tokens: CountTokens) -> list[Piece]:
    """Cut a text into few pieces of at most max_tokens each, at the best places there are.

    A single character of more tokens than that stays whole.
    """
    return list(_cut(text.strip(), max_tokens, count_tokens, places=_PLACES))


def join(pieces: Sequence[Piece], translations: Sequence[str]) -> str:
    """Join the translations of the pieces of one text."""
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
    """Cut at the first kind of place; cut what is still too long at the next kind."""
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
    """Cut at every such place; the parts concatenated are the text."""
    ends = [match.end() for match in place.finditer(text) if match.end() > 0]
    return [text[i:j] for i, j in zip([0, *ends], [*ends, len(text)], strict=True) if i < j]


def _packed(parts: list[str], max_tokens: int, count_tokens: CountTokens) -> Iterator[str]:
    """Merge neighbouring parts while they have at most max_tokens together."""
    packed, total = "", 0
    for part, count in zip(parts, count_tokens(parts), strict=True):
        if packed and total + count > max_tokens:
            yield packed.strip()
            packed, total = "", 0
        packed, total = packed + part, total + count
    yield packed.strip()


def _has_no_spaces(character: str) -> bool:
    """Whether a character belongs to Chinese or Japanese, which are written without spaces."""
    is_wide = unicodedata.east_asian_width(character) in "WF"
    return is_wide and not unicodedata.name(character, "").startswith("HANGUL")
