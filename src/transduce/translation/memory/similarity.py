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
    """Return the fewest tokens to insert, delete or replace; None if they are more than `most`.

    A column of the table of distances is two integers, whose bits say where it rises and where it
    falls (Myers, 1999): so a token of `other` takes a few operations, however long `one` is.
    """
    if abs(len(one) - len(other)) > most:
        return None
    if not one:
        return len(other)
    places: dict[str, int] = {}
    for place, token in enumerate(one):
        places[token] = places.get(token, 0) | 1 << place
    every = (1 << len(one)) - 1
    rises, falls, distance = every, 0, len(one)
    for token in other:
        same = places.get(token, 0)
        is_diagonal = (((same & rises) + rises) ^ rises) | same | falls
        more, fewer = falls | ~(is_diagonal | rises), rises & is_diagonal
        distance += (more >> len(one) - 1 & 1) - (fewer >> len(one) - 1 & 1)
        more, fewer = more << 1 | 1, fewer << 1
        rises, falls = (fewer | ~(is_diagonal | more)) & every, more & is_diagonal & every
    return distance if distance <= most else None
