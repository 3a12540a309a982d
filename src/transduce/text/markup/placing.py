"""Inline tags put back around the words of a translation that belong to theirs.

Every tag comes out once. An element stays in the element that it was in, and elements that were
beside each other stay so: what was valid is valid, whatever the translation and its alignment are.
An element goes around consecutive words: those with the most words of its own and the fewest of
others among them. What stays as it is replaces the words that the translation has for it.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.text.markup.aligned import AlignedWords
from transduce.text.markup.kept_parts import find_kept
from transduce.text.markup.marked import Inline, MarkedText
from transduce.text.markup.words import Span, words_at

OWN, NOBODYS, OTHERS = 1.0, -0.6, -1.0
"""What a word adds to an element that goes around it: one of its own words, a word that belongs to
no element beside it, a word of another element."""
TAKEN = -1e9

Numbers = NDArray[np.int64]


def put_back(marked: MarkedText, translation: str, aligned: AlignedWords) -> str:
    """Return a translation with the tags of the text that it is a translation of."""
    kept = find_kept(marked, translation, aligned)
    aligned = aligned.with_cuts({place for span in kept.values() for place in span})
    placing = _Placing(marked, translation, aligned, kept)
    placing.place_children(-1, _Placed((0, len(translation)), range(len(aligned.target))))
    return placing.written(-1, (0, len(translation)))


@dataclass(frozen=True)
class _Placed:
    """Where an inline goes: characters of the translation, and their words."""

    span: Span
    words: range


class _Placing:
    """The inlines of a text, by number; -1 stands for the whole text."""

    def __init__(
        self, marked: MarkedText, translation: str, aligned: AlignedWords, kept: dict[int, Span]
    ) -> None:
        self._marked, self._translation, self._aligned = marked, translation, aligned
        self._words = [words_at(aligned.source, one.start, one.end) for one in marked.inlines]
        self._words.append(range(len(aligned.source)))  # of -1
        self._children: dict[int, list[int]] = defaultdict(list)
        for number, inline in enumerate(marked.inlines):
            self._children[inline.parent].append(number)
        self._found = {
            number: _Placed(span, words_at(aligned.target, *span)) for number, span in kept.items()
        }
        self._partners = aligned.partners.copy()
        for number, found in self._found.items():
            self._partners[found.words.start : found.words.stop] = self._words[number].start
        self._by_partner: dict[int, list[int]] = defaultdict(list)
        for word, partner in enumerate(self._partners.tolist()):
            self._by_partner[partner].append(word)
        self._placed: dict[int, _Placed] = {}

    def place_children(self, parent: int, within: _Placed) -> None:
        """Place what is directly in an element, and what is in that, where the element is."""
        numbers = self._children[parent]
        around = [number for number in numbers if self._words[number]]
        self._place_around(parent, around, within.words)
        spans = sorted(self._placed[number].span for number in around if number in self._placed)
        for number in numbers:
            if number not in self._placed:
                place = self._place_of_point(self._marked.inlines[number], parent, within)
                place = _beside(spans, place)
                self._placed[number] = _Placed((place, place), range(0))
        for number in around:
            self.place_children(number, self._placed[number])

    def written(self, parent: int, span: Span) -> str:
        """Write the characters of a span, with all that is placed there."""
        parts, place = [], span[0]
        for number in sorted(self._children[parent], key=self._order):
            inline, (start, end) = self._marked.inlines[number], self._placed[number].span
            parts.append(self._text(place, start))
            if not inline.is_kept:
                whole = f"{inline.opening}{self.written(number, (start, end))}{inline.closing}"
                stood_alone = inline.is_point and inline.follows_space and inline.precedes_space
                parts.append(self._spaced_point(whole, start) if stood_alone else whole)
            elif start < end or inline.is_point:
                parts.append(inline.opening)
            else:
                parts.append(self._spaced(inline.opening, start))
            place = end
        parts.append(self._text(place, span[1]))
        return "".join(parts)

    def _spaced(self, kept: str, place: int) -> str:
        """Return words that are put between others with the spaces that they need."""
        before, after = self._neighbours(place)
        left = " " if before and not before.isspace() else ""
        right = " " if after and not after.isspace() else ""
        return f"{left}{kept}{right}"

    def _spaced_point(self, point: str, place: int) -> str:
        """Return what stood between two spaces with the one that is missing; no word is divided."""
        before, after = self._neighbours(place)
        if after and not after.isspace() and (not before or before.isspace()):
            return f"{point} "
        return f" {point}" if after.isspace() and before and not before.isspace() else point

    def _neighbours(self, place: int) -> tuple[str, str]:
        """Return the characters before and after a place; "" at the ends."""
        return self._translation[max(0, place - 1) : place], self._translation[place : place + 1]

    def _order(self, number: int) -> tuple[int, bool, int]:
        start, end = self._placed[number].span
        return start, end > start, number

    def _text(self, start: int, end: int) -> str:
        return self._marked.reader.written(self._translation[start:end])

    def _place_around(self, parent: int, numbers: Sequence[int], region: range) -> None:
        """Place elements with words around words of a region, those first that have most there."""
        owners = self._owners(numbers, region)  # [T]
        owned = _places_by_value(owners, numbers)
        free = np.ones(len(region), dtype=np.bool_)  # [T]
        gains = {number: _best(number, owned[number], owners, free)[0] for number in numbers}
        for number in sorted(numbers, key=lambda one: -gains[one]):
            placed = self._found.get(number)
            if placed is None or not _is_free(placed.words, region, free):
                covers = len(numbers) == 1 and self._words[number] == self._words[parent]
                words = region
                if not covers:
                    start, end = self._chosen(number, owned[number], owners, free, region)
                    words = range(region.start + start, region.start + end)
                if not words:
                    continue  # it goes between words: there are too few, or none to replace
                placed = self._around(words if covers else self._trimmed(words, number))
            self._placed[number] = placed
            free[placed.words.start - region.start : placed.words.stop - region.start] = False

    def _owners(self, numbers: Sequence[int], region: range) -> Numbers:
        """Return for each word of a region the element that its partner is in, or -1."""
        partners = self._partners[region.start : region.stop]
        owners = np.full(len(region), -1, dtype=np.int64)
        if numbers:
            starts = np.array([self._words[number].start for number in numbers])
            stops = np.array([self._words[number].stop for number in numbers])
            places = np.searchsorted(starts, partners, side="right") - 1
            is_inside = (places >= 0) & (partners < stops[places])
            owners[is_inside] = np.array(numbers)[places[is_inside]]
        return owners

    def _chosen(
        self,
        number: int,
        owned: Numbers,
        owners: Numbers,
        free: NDArray[np.bool_],
        region: range,
    ) -> tuple[int, int]:
        """Return the words of a region that an element goes around; none if none is free."""
        _, start, end = _best(number, owned, owners, free)
        if start == end and not self._marked.inlines[number].is_kept:
            return self._likeliest(number, region, free)
        return start, end

    def _trimmed(self, words: range, number: int) -> range:
        """Leave out punctuation at an end of words where the element had a word."""
        inline, text = self._marked.inlines[number], self._marked.text
        start, end = words.start, words.stop
        while end - start > 1 and text[inline.start].isalnum() and not self._is_word(start):
            start += 1
        while end - start > 1 and text[inline.end - 1].isalnum() and not self._is_word(end - 1):
            end -= 1
        return range(start, end)

    def _is_word(self, number: int) -> bool:
        start, end = self._aligned.target[number]
        return any(character.isalnum() for character in self._translation[start:end])

    def _likeliest(self, number: int, region: range, free: NDArray[np.bool_]) -> tuple[int, int]:
        """Return the free word that depends most on the words of an element; none if none is."""
        if not free.any():
            return 0, 0
        first, shares = self._aligned.shares(self._words[number], region)
        start = first - region.start
        is_free = free[start : start + len(shares)]
        place = int(free.argmax())
        if is_free.any():
            place = start + int(np.where(is_free, shares, -1.0).argmax())
        return place, place + 1

    def _around(self, words: range) -> _Placed:
        target = self._aligned.target
        return _Placed((target[words.start][0], target[words.stop - 1][1]), words)

    def _place_of_point(self, inline: Inline, parent: int, within: _Placed) -> int:
        """Return where something without words goes: beside the word that it was beside."""
        words, region = self._words[parent], within.words
        after = words_at(self._aligned.source, inline.start, len(self._marked.text)).start
        if not region or (after <= words.start and parent >= 0):
            return within.span[0]
        if after <= words.start:
            return self._aligned.target[0][0]
        if after >= words.stop:
            return self._aligned.target[region.stop - 1][1]
        is_before = inline.follows_space  # it belongs to the word after it
        word = after if is_before else after - 1
        partners = self._by_partner.get(word, [])
        first, last = (bisect_left(partners, end) for end in (region.start, region.stop))
        if first < last:
            target = partners[first if is_before else last - 1]
        else:
            start, shares = self._aligned.shares(range(word, word + 1), region)
            target = start + int(shares.argmax()) if len(shares) else region.start
        return self._aligned.target[target][0 if is_before else 1]


def _places_by_value(values: Numbers, wanted: Sequence[int]) -> dict[int, Numbers]:
    """Return where each of the wanted values is, in order."""
    order = np.argsort(values, kind="stable")
    in_order = values[order]
    starts = np.searchsorted(in_order, wanted, side="left")
    ends = np.searchsorted(in_order, wanted, side="right")
    return {one: order[start:end] for one, start, end in zip(wanted, starts, ends, strict=True)}


def _best(
    number: int, owned: Numbers, owners: Numbers, free: NDArray[np.bool_]
) -> tuple[float, int, int]:
    """Return the largest gain of consecutive words, and these words; none if none is owned."""
    owned = owned[free[owned]]
    if not len(owned):
        return 0.0, 0, 0
    first, last = int(owned[0]), int(owned[-1]) + 1
    part = owners[first:last]
    gains = np.where(part == number, OWN, np.where(part < 0, NOBODYS, OTHERS))
    gains[~free[first:last]] = TAKEN
    sums = np.concatenate([[0.0], np.cumsum(gains)])
    lowest = np.minimum.accumulate(sums)
    end = int((sums[1:] - lowest[:-1]).argmax()) + 1
    start = int(sums[:end].argmin())
    return float(sums[end] - sums[start]), first + start, first + end


def _is_free(words: range, region: range, free: NDArray[np.bool_]) -> bool:
    """Whether all of these words are in a region, and free."""
    is_within = region.start <= words.start and words.stop <= region.stop
    return is_within and bool(free[words.start - region.start : words.stop - region.start].all())


def _beside(spans: Sequence[Span], place: int) -> int:
    """Return a place, or the nearer end of the span that it is within."""
    index = bisect_left(spans, (place, -1)) - 1
    if index >= 0 and place < spans[index][1]:
        start, end = spans[index]
        return start if place - start < end - place else end
    return place
