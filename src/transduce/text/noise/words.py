"""Changes of single words. A word has the space before it, and punctuation that touches it.

A text is the concatenation of its words. Subwords never cross the space before a word, so a text
with changed words is encoded by encoding these words alone.
"""

import re
from typing import NamedTuple

_WORD = re.compile(r"\s*[^\s]+|\s+$")
_INITIAL = re.compile(r"[^\W\d_]")
_FINAL = re.compile(r"[.!?\u2026\u3002\uff01\uff1f\u0964\u061f]+([\"'\u201d\u2019\u00bb)\]]*)$")
_PLAIN = str.maketrans(
    dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb", '"')
    | dict.fromkeys("\u2018\u2019\u201a\u201b\u2039\u203a`\u00b4", "'")
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015", "-")
)


class MarkStyle(NamedTuple):
    """How quotes, apostrophes and dashes between words are written."""

    opening: str
    closing: str
    apostrophe: str
    dash: str


MARK_STYLES = (
    MarkStyle('"', '"', "'", "-"),
    MarkStyle("\u201c", "\u201d", "\u2019", "\u2014"),
    MarkStyle("\u201e", "\u201c", "\u2019", "\u2013"),
    MarkStyle("\u00ab", "\u00bb", "\u2019", "\u2013"),
    MarkStyle("\u2018", "\u2019", "\u2019", "--"),
    MarkStyle("``", "''", "`", "--"),
    MarkStyle("''", "''", "\u00b4", "-"),
)
"""Keyboards, English, German, French, British, and two of those who have no better keys."""


def words_of(text: str) -> list[str]:
    """Cut a text into words; joined, they are the text."""
    return _WORD.findall(text)


def upper(word: str) -> str:
    """Write all letters in upper case."""
    return word.upper()


def lower(word: str) -> str:
    """Write all letters in lower case."""
    return word.lower()


def title(word: str) -> str:
    """Write the first letter in upper case."""
    return _INITIAL.sub(lambda found: found[0].upper(), word, count=1)


def without_end(word: str) -> str:
    """Drop the marks that end a sentence; a word of nothing else goes too, unless it is the first.

    The first word has no space before it.
    """
    found = _FINAL.search(word)
    if found is None:
        return word
    kept = word[: found.start()] + found[1]
    return kept if kept.strip() else "" if word[0].isspace() else word


def doubled_end(word: str, *, times: int = 2) -> str:
    """Repeat the mark that ends a sentence."""
    found = _FINAL.search(word)
    if found is None:
        return word
    marks = found[0][: len(found[0]) - len(found[1])]
    return word[: found.start()] + (marks * times)[:12] + found[1]


def merged(words: str) -> str:
    """Leave out the space between two words."""
    core = words.lstrip()
    return words[: len(words) - len(core)] + "".join(core.split())


def other_marks(word: str, style: MarkStyle) -> str:
    """Write quotes, apostrophes and dashes in another style."""
    plain = word.translate(_PLAIN)
    core = plain.lstrip()
    space = plain[: len(plain) - len(core)]
    if core == "-":
        return space + style.dash
    opening = style.opening if core.startswith('"') else ""
    core = core.removeprefix('"').replace("'", style.apostrophe)
    return space + opening + core.replace('"', style.closing)
