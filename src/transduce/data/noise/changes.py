"""What may happen to a word, as one number, so that it can be drawn for many words at once.

A number has an index for each of these, from the last to the first: a change of letters or marks,
the style of its quotes and dashes, its case, whether a space is put before it; and, for a string
that is not in the text, which one.
"""

from zlib import crc32

from transduce.text.noise.draws import Draws
from transduce.text.noise.typos import mistyped, split_in_two
from transduce.text.noise.untranslatable import untranslatable
from transduce.text.noise.words import (
    MARK_STYLES,
    doubled_end,
    lower,
    merged,
    other_marks,
    title,
    upper,
    without_end,
)

MISSING_END = 1
DOUBLED_END = 2
TRIPLED_END = 3
MERGED = 4
FIRST_TYPO = 5
TYPOS = 16
"""A word may be mistyped in this many ways, most of them different."""
FIRST_SPLIT = FIRST_TYPO + TYPOS
SPLITS = 8

STYLE = 128
CASE = 1024
CASES = (None, upper, title, lower)
SPACED = 4096
STRING = 8192
STRINGS = 1 << 11
"""How many different strings are copied through."""


def changed(word: str, change: int) -> str:
    """Return what becomes of a word; a string that is copied through starts as an empty word."""
    string, change = divmod(change, STRING)
    is_spaced, change = divmod(change, SPACED)
    case, change = divmod(change, CASE)
    style, change = divmod(change, STYLE)
    text = untranslatable(Draws(string)) if string else _with_letters_changed(word, change)
    if style:
        text = other_marks(text, MARK_STYLES[style - 1])
    if write := CASES[case]:
        text = write(text)
    return f" {text.lstrip()}" if is_spaced else text


def _with_letters_changed(word: str, change: int) -> str:
    if change == MISSING_END:
        return without_end(word)
    if change in (DOUBLED_END, TRIPLED_END):
        return doubled_end(word, times=change)
    if change == MERGED:
        return merged(word)
    draws = Draws(crc32(word.encode()) << 8 | change)
    if FIRST_TYPO <= change < FIRST_SPLIT:
        return mistyped(word, draws)
    return split_in_two(word, draws) if change >= FIRST_SPLIT else word
