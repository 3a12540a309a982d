"""Mistakes of people who type: neighbouring keys, letters swapped, dropped or doubled, spaces."""

import re
from collections.abc import Iterator

from transduce.text.noise.draws import Draws

KEYBOARDS = (
    ("qwertyuiop", "asdfghjkl", "zxcvbnm"),
    ("йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю"),
    ("ςερτυθιοπ", "ασδφγηξκλ", "ζχψωβνμ"),
)
"""The rows of letters of the commonest layouts; each row starts half a key further right."""

MIN_LETTERS = 3
"""Shorter words are left alone: one letter less, and nobody can tell which word it was."""

WORDS_PER_TYPO = 10
"""One word in so many is mistyped in a text with typos, and at least one."""

_LETTERS = re.compile(r"[^\W\d_]+")


def _neighbours() -> Iterator[tuple[str, str]]:
    for rows in KEYBOARDS:
        for number, row in enumerate(rows):
            for place, letter in enumerate(row):
                beside = [row[place - 1] if place else "", *row[place + 1 : place + 2]]
                below = rows[number + 1][max(0, place - 1) : place + 1] if number < 2 else ""
                above = rows[number - 1][place : place + 2] if number else ""
                yield letter, "".join([*beside, below, above])


NEIGHBOURS = dict(_neighbours())
"""The letters whose keys touch that of a letter."""


def mistyped(word: str, draws: Draws) -> str:
    """Make one mistake in the longest run of letters, unless it is too short."""
    found = max(_LETTERS.finditer(word), key=lambda run: len(run[0]), default=None)
    if found is None or len(found[0]) < MIN_LETTERS:
        return word
    place = found.start() + draws.below(len(found[0]))
    letter, kind = word[place], draws.below(8)
    if kind < 3 and (keys := NEIGHBOURS.get(letter.lower())):
        wrong = draws.one_of(keys)
        typed = wrong.upper() if letter.isupper() else wrong
        return word[:place] + typed + word[place + (kind < 2) :]  # instead of it, or before it
    if kind < 5:  # two letters in the wrong order
        first = min(place, found.end() - 2)
        return word[:first] + word[first + 1] + word[first] + word[first + 2 :]
    if kind < 7:
        return word[:place] + word[place + 1 :]
    return word[:place] + letter + word[place:]


def split_in_two(word: str, draws: Draws) -> str:
    """Put a space between two letters of the longest run of letters, unless it is too short."""
    found = max(_LETTERS.finditer(word), key=lambda run: len(run[0]), default=None)
    if found is None or len(found[0]) < MIN_LETTERS:
        return word
    place = found.start() + 1 + draws.below(len(found[0]) - 1)
    return f"{word[:place]} {word[place:]}"


def with_typos(words: list[str], draws: Draws) -> list[str]:
    """Mistype one word in ten of a text, at least one.

    Where a word of one or two letters is drawn, nothing changes.
    """
    typed = list(words)
    for _ in range(usual_typos(len(words))):
        place = draws.below(len(words))
        typed[place] = mistyped(typed[place], draws)
    return typed


def usual_typos(words: int) -> int:
    """Return how many words of a text with typos are mistyped."""
    return max(min(words, 1), (words + WORDS_PER_TYPO // 2) // WORDS_PER_TYPO)
