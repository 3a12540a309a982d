"""Inline codes of a segment put around the words of its translation that belong to theirs.

A segment with codes is translated as a `MarkedText` whose tags are marks that stand for the codes.
Its translation has the same marks, around the words that the alignment gives them. A code then
moves to where its mark is, within the code that it is in. One that must stay where it is, such as
a tag that is closed in another segment, keeps its order: if its words are elsewhere, they are
written without it. No text is lost or doubled, whatever the alignment is.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

from transduce.text.markup.marked import Line, MarkedText, text_of
from transduce.text.markup.segments import marked_text
from transduce.text.markup.structure import Item, Role
from transduce.translation.documents.segments import (
    PlacedText,
    Range,
    Segment,
    SegmentPart,
    common_length,
)

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufffe\uffff]")
"""Characters that most formats cannot have, and no translation needs: marks are made of them."""
_MARK = re.compile("\x01([0-9]+)\x02|(\x03)|\x04([0-9]+)\x02")


def lines_to_translate(segments: Sequence[Segment]) -> list[Line]:
    """Return the texts of those segments that need a translation, with marks for their codes."""
    return [_line(segment) for segment in segments if segment.needs_translation]


def place_translations(
    segments: Sequence[Segment], translations: Sequence[str]
) -> list[PlacedText | None]:
    """Place the translations of `lines_to_translate` in their segments; None: it is the same."""
    rest = iter(translations)
    return [
        _placed(segment, next(rest)) if segment.needs_translation else None for segment in segments
    ]


def without_marks(line: Line, translation: str) -> str:
    """Return the words of the translation of a line, with those that are kept."""
    kept = _kept_words(line)
    return _MARK.sub(lambda mark: kept.get(mark[0], ""), translation)


def line_of_translation(line: Line, translation: str) -> Line:
    """Return a translation as a line to translate again, with the marks that it has."""
    if not isinstance(line, MarkedText):
        return " ".join(translation.split())
    kept = _kept_words(line)
    items, place = [], 0
    for mark in _MARK.finditer(translation):
        items.append(Item(Role.TEXT, translation[place : mark.start()]))
        place = mark.end()
        role = Role.KEPT if mark[0] in kept else Role.POINT if mark[3] else Role.OPENING
        items.append(Item(Role.CLOSING if mark[2] else role, mark[0], shown=kept.get(mark[0], "")))
    items.append(Item(Role.TEXT, translation[place:]))
    found = marked_text(items, line.reader)
    return replace(found, source=found.text)


def wrap(text: str, lines: int) -> str:
    """Break a text into about equal lines, at spaces: each at the free one that is nearest."""
    spaces = [place for place, character in enumerate(text) if character == " "]
    breaks = min(lines - 1, len(spaces))
    chosen, first = set[int](), 0  # the first space that is free
    for number in range(1, breaks + 1):
        ideal = len(text) * number / lines
        last = len(spaces) - 1 - (breaks - number)  # later breaks need a space each
        while first < last and abs(spaces[first + 1] - ideal) < abs(spaces[first] - ideal):
            first += 1
        chosen.add(spaces[first])
        first += 1
    return "".join("\n" if place in chosen else letter for place, letter in enumerate(text))


def _kept_words(line: Line) -> dict[str, str]:
    """Return the words that are kept, by their marks."""
    if not isinstance(line, MarkedText):
        return {}
    return {one.opening: line.text[one.start : one.end] for one in line.inlines if one.is_kept}


class _PlainText:
    """Text as a translation has it; a format writes it later."""

    def parts(self, source: str) -> list[str]:
        return [source]

    def text(self, source: str) -> str:
        return source

    def written(self, text: str) -> str:
        return _CONTROL.sub("", text)


def _line(segment: Segment) -> Line:
    if not any(part.path for part in segment.parts):
        return segment.text
    found = marked_text(list(_items(segment.parts)), _PlainText())
    return replace(found, source=segment.text)


def _items(parts: Sequence[SegmentPart]) -> Iterator[Item]:
    path: tuple[int, ...] = ()
    for part in (*parts, SegmentPart("")):
        around = part.path[:-1] if part.is_kept else part.path
        same = common_length(path, around)
        yield from [Item(Role.CLOSING, "\x03")] * (len(path) - same)
        for number in around[same:]:
            yield Item(Role.OPENING, f"\x01{number}\x02")
        path = around
        text = _CONTROL.sub("", part.text)
        if not part.is_kept:
            yield Item(Role.TEXT, text)
            continue
        if _is_space(part):
            yield Item(Role.TEXT, " ")
        role = Role.KEPT if text.strip() else Role.POINT
        yield Item(role, f"\x04{part.path[-1]}\x02", shown=text)


def _is_space(part: SegmentPart) -> bool:
    """Whether it is a code that stands for a space."""
    return part.is_kept and bool(part.text) and not part.text.strip()


@dataclass
class _Code:
    """A code in a segment or in its translation, and what is in it; the whole has number -1."""

    number: int
    codes: list["_Code"] = field(default_factory=list)
    texts: list[str] = field(default_factory=lambda: [""])  # before, between and after the codes
    holes: list[int | None] = field(default_factory=lambda: [None])  # parts for these texts
    kept: int | None = None  # the part, if it is kept

    def add(self, code: "_Code") -> None:
        self.codes.append(code)
        self.texts.append("")
        self.holes.append(None)

    @property
    def all_text(self) -> str:
        """Its text without any codes."""
        inner = [code.all_text for code in self.codes]
        return self.texts[0] + "".join(
            text for pair in zip(inner, self.texts[1:], strict=True) for text in pair
        )


def _codes_of_segment(parts: Sequence[SegmentPart]) -> _Code:
    opened = [_Code(-1)]
    for place, part in enumerate(parts):
        same = common_length(tuple(code.number for code in opened[1:]), part.path)
        del opened[same + 1 :]
        for number in part.path[same:]:
            code = _Code(number)
            opened[-1].add(code)
            opened.append(code)
        if part.is_kept:
            opened.pop().kept = place
        else:
            opened[-1].holes[-1] = place
    return opened[0]


def _codes_of_translation(translation: str) -> _Code:
    opened, place = [_Code(-1)], 0
    for mark in _MARK.finditer(translation):
        opened[-1].texts[-1] += _CONTROL.sub("", translation[place : mark.start()])
        place = mark.end()
        if mark[2]:
            opened.pop()
            continue
        code = _Code(int(mark[1] or mark[3]))
        opened[-1].add(code)
        if mark[1]:
            opened.append(code)
    opened[-1].texts[-1] += _CONTROL.sub("", translation[place:])
    whole = opened[0]
    whole.texts[0] = whole.texts[0].lstrip()
    whole.texts[-1] = whole.texts[-1].rstrip()
    return whole


def _placed(segment: Segment, translation: str) -> PlacedText | None:
    line = _line(segment)
    if without_marks(line, translation).split() == text_of(line).split():
        return None
    placing = _Placing(segment)
    placing.place(_codes_of_segment(segment.parts), _codes_of_translation(translation))
    texts = [""] * len(segment.parts)
    for place, text in placing.filled():
        texts[place] = text
    return PlacedText(tuple(texts), tuple(placing.moves))


class _Placing:
    """Collects the texts of parts, in the order in which they are written, and moves of codes."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._written: list[tuple[int | None, str]] = []  # None: there is no part for this text
        self.moves: list[tuple[Range, Range]] = []

    def place(self, source: _Code, target: _Code) -> None:
        """Place what a code has in the translation."""
        numbers = [code.number for code in source.codes]
        if not self._may_be(numbers, [code.number for code in target.codes]):
            target = _in_order(numbers, target)
        ranges, by_number = self._segment.ranges, {code.number: code for code in source.codes}
        for place, (number, code) in enumerate(zip(numbers, target.codes, strict=True)):
            self._written.append((source.holes[place], target.texts[place]))
            if code.number != number:
                self.moves.append((ranges[number], ranges[code.number]))
            own = by_number[code.number]
            if own.kept is None:
                self.place(own, code)
            else:
                self._written.append((own.kept, ""))
        self._written.append((source.holes[-1], target.texts[-1]))

    def _may_be(self, numbers: list[int], order: list[int]) -> bool:
        """Whether codes may have another order: those that stay must be in their places."""
        return sorted(numbers) == sorted(order) and all(
            old == new or (old in self._segment.ranges and new in self._segment.ranges)
            for old, new in zip(numbers, order, strict=True)
        )

    def filled(self) -> list[tuple[int, str]]:
        """Return the text of each part, with the spaces at the ends of the segment."""
        found: list[tuple[int, str]] = []
        waiting, is_after_kept = "", False
        for place, text in self._written:
            if place is None and found and not is_after_kept:
                found[-1] = (found[-1][0], found[-1][1] + text)
            elif place is None:
                waiting += text
            elif not self._segment.parts[place].is_kept:
                found.append((place, waiting + text))
                waiting, is_after_kept = "", False
            elif found and self._stands_for_space(place) and found[-1][1][-1:] == " ":
                found[-1] = (found[-1][0], found[-1][1][:-1])
            else:
                is_after_kept = True
        found[-1] = (found[-1][0], found[-1][1] + waiting)
        return self._with_space(self._wrapped(found))

    def _stands_for_space(self, place: int) -> bool:
        """Whether it is a code that stands for the only space there."""
        parts = self._segment.parts
        return _is_space(parts[place]) and not (place and parts[place - 1].text[-1:].isspace())

    def _wrapped(self, found: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """Break the text into lines; there are no others in it."""
        texts = [re.sub(r"\s+", " ", text) for _, text in found]
        whole = wrap("".join(texts), self._segment.lines)
        ends = list(accumulate(map(len, texts), initial=0))
        return [
            (place, whole[start:end])
            for (place, _), (start, end) in zip(found, pairwise(ends), strict=True)
        ]

    def _with_space(self, found: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """Add the spaces at both ends of the segment, where they were."""
        parts = self._segment.parts
        filled = [place for place, part in enumerate(parts) if part.text.strip()]
        first, last = filled[0], filled[-1]
        written = [place for place, text in found if text] or [found[0][0]]
        texts = dict(found)
        if not parts[first].is_kept:
            at, text = first if found[0][0] == first else written[0], parts[first].text
            texts[at] = text[: len(text) - len(text.lstrip())] + texts[at]
        if not parts[last].is_kept:
            at, text = last if found[-1][0] == last else written[-1], parts[last].text
            texts[at] += text[len(text.rstrip()) :]
        for place, part in enumerate(parts):
            if place < first and place in texts:
                texts[place] = part.text + texts[place]
            elif place > last and place in texts:
                texts[place] += part.text
        return list(texts.items())


def _in_order(numbers: Sequence[int], target: _Code) -> _Code:
    """Return a code with inner codes in this order.

    The text of those that do not come in this order is written without them; they are empty.
    """
    order = {number: place for place, number in enumerate(numbers)}
    own = [place for place, code in enumerate(target.codes) if code.number in order]
    chosen = _longest_rise([order[target.codes[place].number] for place in own])
    stays = {own[place] for place in chosen}
    found = _Code(target.number, texts=[target.texts[0]])
    for place, code in enumerate(target.codes):
        if place not in stays:
            found.texts[-1] += code.all_text + target.texts[place + 1]
            continue
        _add_empty(found, numbers[len(found.codes) : order[code.number]])
        found.add(code)
        found.texts[-1] = target.texts[place + 1]
    _add_empty(found, numbers[len(found.codes) :])
    return found


def _add_empty(code: _Code, numbers: Sequence[int]) -> None:
    for number in numbers:
        code.add(_Code(number))


def _longest_rise(values: Sequence[int]) -> list[int]:
    """Return the places of a longest part of a sequence that rises."""
    ends: list[int] = []  # values that rises of each length end with
    places: list[int] = []
    before: list[int] = []
    for place, value in enumerate(values):
        length = bisect_left(ends, value)
        before.append(places[length - 1] if length else -1)
        ends[length : length + 1] = [value]
        places[length : length + 1] = [place]
    found, place = [], places[-1] if places else -1
    while place >= 0:
        found.append(place)
        place = before[place]
    return found[::-1]
