"""Words of a text, by the characters that they span."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

from transduce.text.scripts import continues_character, has_unspaced_script

Span = tuple[int, int]
"""The first character of a part of a text, and the one after its last."""

# A sign between letters or digits belongs to their word: 3.5, don't, name@example.org.
_WORD = re.compile(r"\w+(?:[^\w\s]\w+)*|[^\w\s]")
_JOINERS = "\u200c\u200d"


def word_spans(text: str, cuts: Iterable[int] = ()) -> list[Span]:
    """Return the words of a text and its punctuation marks, each by itself; spaces are left out.

    In scripts without spaces every character is a word. Words are also divided at the cuts.
    """
    spans: list[Span] = []
    for match in _WORD.finditer(text):
        start, end = match.span()
        if spans and spans[-1][1] == start and _continues(text[start - 1], text[start]):
            start = spans.pop()[0]
        spans.append((start, end))
    return cut_spans([part for span in spans for part in _characters(text, span)], cuts)


def words_at(spans: Sequence[Span], start: int, end: int) -> range:
    """Return the numbers of the words that have some of these characters."""
    first = bisect_right(spans, start, key=lambda span: span[1])
    return range(first, max(first, bisect_left(spans, end, key=lambda span: span[0])))


def cut_spans(spans: Sequence[Span], cuts: Iterable[int]) -> list[Span]:
    """Divide spans at places."""
    places = iter(sorted(cuts))
    place = next(places, None)
    found: list[Span] = []
    for start, end in spans:
        while place is not None and place < end:
            if start < place:
                found.append((start, place))
                start = place
            place = next(places, None)
        found.append((start, end))
    return found


def _continues(before: str, after: str) -> bool:
    """Whether there is no end of a word between two characters: accents, signs of vowels, emoji."""
    return any(continues_character(one) or one in _JOINERS for one in (before, after))


def _characters(text: str, span: Span) -> list[Span]:
    """Divide what is written without spaces; an accent stays with its character."""
    start, end = span
    if end - start == 1 or not has_unspaced_script(text[start:end]):
        return [span]
    starts = [start]
    for place in range(start + 1, end):
        pair = text[place - 1 : place + 1]
        if has_unspaced_script(pair) and not continues_character(pair[1]):
            starts.append(place)
    return list(pairwise([*starts, end]))
