"""Parts that stay as they are, such as `<code>`, found again in a translation."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

from transduce.text.markup.aligned import AlignedWords
from transduce.text.markup.marked import Inline, MarkedText
from transduce.text.markup.words import Span, words_at
from transduce.text.phrases.boundaries import is_word_character

MAX_OCCURRENCES = 10
"""How many occurrences of one text are compared."""


def find_kept(marked: MarkedText, translation: str, aligned: AlignedWords) -> dict[int, Span]:
    """Find the characters of each such part that the translation has copied.

    Of several occurrences it is the one that depends most on the part.
    """
    found: dict[int, Span] = {}
    taken: list[Span] = []  # in order
    for number, inline in enumerate(marked.inlines):
        if not inline.is_kept or inline.is_point:
            continue
        words = words_at(aligned.source, inline.start, inline.end)
        region = [aligned.target[word] for word in aligned.region(words)]
        best, most = None, -1.0
        for start, end in _occurrences(inline, marked.text, translation, region):
            _, shares = aligned.shares(words, words_at(aligned.target, start, end))
            if not _overlaps((start, end), taken) and shares.sum() > most:
                best, most = (start, end), float(shares.sum())
        if best is not None:
            found[number] = best
            insort(taken, best)
    return found


def _overlaps(span: Span, others: Sequence[Span]) -> bool:
    """Whether a span overlaps one of others, which are in order and do not overlap."""
    after = bisect_left(others, span)
    return any(
        span[0] < end and start < span[1] for start, end in others[max(0, after - 1) : after + 1]
    )


def _occurrences(
    inline: Inline, text: str, translation: str, region: Sequence[Span]
) -> Iterator[Span]:
    """Yield where a part occurs within a region; it is no part of a longer word unless it was."""
    if not region:
        return
    phrase = text[inline.start : inline.end]
    was_free = _ends_word(text, inline.start, inline.end)
    place = translation.find(phrase, region[0][0], region[-1][1])
    for _ in range(MAX_OCCURRENCES):
        if place < 0:
            return
        end = place + len(phrase)
        is_free = _ends_word(translation, place, end)
        if all(now or not before for now, before in zip(is_free, was_free, strict=True)):
            yield place, end
        place = translation.find(phrase, place + 1, region[-1][1])


def _ends_word(text: str, start: int, end: int) -> tuple[bool, bool]:
    """Return whether a word begins at the start of a part, and whether one ends at its end."""
    sides = ((text[start - 1 : start], text[start]), (text[end : end + 1], text[end - 1]))
    before, after = (
        not (other and is_word_character(other) and is_word_character(own)) for other, own in sides
    )
    return before, after
