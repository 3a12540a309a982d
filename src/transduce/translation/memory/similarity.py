"""How much two texts have in common, token by token."""

import re
from collections.abc import Sequence

from transduce.text.phrases.boundaries import is_word_character

_PARTS = re.compile(r"\w+|[^\w\s]")


def tokens_of(text: str) -> list[str]:
    """Divide a text into words and signs; in scripts without spaces, into characters."""
    tokens = []
    for part in _PARTS.findall(text):
        if part.isascii() or all(map(is_word_character, part)):
            tokens.append(part)
        else:
            tokens += _divided(part)
    return tokens


def _divided(part: str) -> list[str]:
    """Divide what has no spaces: each character of such a script is a token."""
    tokens: list[str] = []
    goes_on = False
    for character in part:
        is_word = is_word_character(character)
        if is_word and goes_on:
            tokens[-1] += character
        else:
            tokens.append(character)
        goes_on = is_word
    return tokens


def edit_distance(one: Sequence[str], other: Sequence[str], *, most: int) -> int | None:
    """Return the fewest tokens to insert, delete or replace; None if they are more than `most`."""
    if abs(len(one) - len(other)) > most:
        return None
    above = list(range(len(other) + 1))
    for number, token in enumerate(one, start=1):
        first, last = max(1, number - most), min(len(other), number + most)
        row = [most + 1] * (len(other) + 1)  # what is further off the diagonal costs too much
        row[0] = number
        for place in range(first, last + 1):
            is_other = token != other[place - 1]
            row[place] = min(above[place - 1] + is_other, above[place] + 1, row[place - 1] + 1)
        if min(row[first - 1 : last + 1]) > most:
            return None
        above = row
    return above[-1] if above[-1] <= most else None
