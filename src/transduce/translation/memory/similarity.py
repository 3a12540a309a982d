"""How much two texts have in common, token by token."""

import re

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
