"""How a text is written: whether spaces separate its words, and in which script."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal

from transduce.text.scripts import has_unspaced_script

Script = Literal["Chinese", "Japanese", "other unspaced", "spaced"]
Spacing = Literal["words", "none", "cut"]

UNSPACED_WORD_CHARS = 12
"""Where "words" between spaces are longer than this on average, the script has no spaces."""
CUT_CHARS = 8
"""A script without spaces that has one at least every so many letters was cut into words."""
MIN_KANA = 0.1
"""The share of kana from which on a text in Chinese characters is Japanese."""


@dataclass(frozen=True)
class Writing:
    """The script of a text, and what its spaces mean.

    Spacing is "words" if spaces separate words, "none" if nothing does (even where the script has
    spaces), and "cut" if the script has no spaces but the text was cut into words beforehand.
    """

    script: Script
    spacing: Spacing


def writing_of(texts: Sequence[str]) -> Writing:
    """Judge by the majority of the letters."""
    characters: Counter[str] = Counter()
    for text in texts:
        characters.update(text)
    scripts: Counter[str] = Counter()
    for character, count in characters.items():
        scripts[_script_of(character)] += count
    unspaced = scripts["Han"] + scripts["kana"] + scripts["unspaced"]
    if unspaced <= scripts["spaced"]:
        return Writing("spaced", "none" if _has_long_words(texts) else "words")
    is_cut = CUT_CHARS * _spaces_inside(texts) >= unspaced
    return Writing(_name_of(scripts), "cut" if is_cut else "none")


def _name_of(scripts: Counter[str]) -> Script:
    if scripts["unspaced"] > scripts["Han"] + scripts["kana"]:
        return "other unspaced"
    is_japanese = scripts["kana"] >= MIN_KANA * (scripts["Han"] + scripts["kana"])
    return "Japanese" if is_japanese else "Chinese"


@cache
def _script_of(character: str) -> str:
    if unicodedata.category(character)[0] not in "LM":
        return "no letter"
    if not has_unspaced_script(character):
        return "spaced"
    name = unicodedata.name(character, "")
    if name.startswith("CJK"):
        return "Han"
    return "kana" if "KATAKANA" in name or "HIRAGANA" in name else "unspaced"


def _has_long_words(texts: Iterable[str]) -> bool:
    words = letters = 0
    for text in texts:
        found = text.split()
        words += len(found)
        letters += sum(map(len, found))
    return letters > UNSPACED_WORD_CHARS * words


def _spaces_inside(texts: Iterable[str]) -> int:
    """Count the spaces between two characters of scripts that have none."""
    return sum(
        has_unspaced_script(left[-1]) and has_unspaced_script(right[0])
        for text in texts
        for left, right in pairwise(re.split(r"\s+", text.strip()))
    )
