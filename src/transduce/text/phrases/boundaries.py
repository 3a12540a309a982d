"""Where words begin and end, character by character."""

import unicodedata
from enum import IntEnum
from functools import cache

from transduce.text.scripts import has_unspaced_script


class Kind(IntEnum):
    """What begins at a byte of UTF-8."""

    WORD = 0  # a character of a word
    BREAK = 1  # any other character: a space, punctuation, or one of a script without spaces
    UNKNOWN = 2  # a byte of a character that is not complete
    INSIDE = 3  # nothing: a further byte of a character


@cache
def is_word_character(character: str) -> bool:
    """Return whether a character belongs to a word, so that a word does not end before it.

    In scripts without spaces a word may end anywhere: none of their characters does.
    """
    is_letter = character.isalnum() or character == "_"
    is_mark = unicodedata.category(character)[0] == "M"
    return (is_letter or is_mark) and not has_unspaced_script(character)


def kinds_of(text: bytes) -> list[Kind]:
    """Return what begins at each byte of a part of a text, which may cut characters."""
    kinds = [Kind.UNKNOWN] * len(text)
    place = 0
    while place < len(text):
        size = _size_by_first_byte(text[place])
        try:
            character = text[place : place + size].decode() if size else ""
        except UnicodeDecodeError:
            character = ""
        if not character:
            place += 1
            continue
        kinds[place] = Kind.WORD if is_word_character(character) else Kind.BREAK
        kinds[place + 1 : place + size] = [Kind.INSIDE] * (size - 1)
        place += size
    return kinds


def _size_by_first_byte(byte: int) -> int:
    """Return the bytes of a character of UTF-8 by its first; 0: no character begins so."""
    if byte < 0x80:
        return 1
    if byte < 0xC0:
        return 0
    return 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
