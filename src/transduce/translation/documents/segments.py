"""What formats and translators exchange.

A format finds the segments of a file: a paragraph, a cell, a cue, a string. The parts of a segment
are its text between inline codes: runs of a paragraph, text between tags. A segment is translated
as one text, and its translation is divided among the same parts, so codes stay where they are and
no text is lost or doubled. `divide` is the only place that decides which words go where.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from transduce.errors import InputError
from transduce.translation.documents.limits import MAX_PARTS, MAX_SEGMENT_CHARS, MAX_SEGMENTS

MOST_ANCHORED = 200
"""Of more parts, none is looked for in the translation: that would take long."""
SHORTEST_NAME = 3
"""Characters of a part that is looked for in the translation as it is."""
OTHER_KIND = 2
"""A boundary without a space where the source has one costs as much as this many characters."""

_PUNCTUATION = r""".,;:!?…(){}\[\]<>"'“”„«»‘’¿¡。，、；：！？（）「」『』"""
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_MARKS = r"\u0300-\u036f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece"
_WORD = rf"[^\s{_PUNCTUATION}{_UNSPACED}]++"
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufffe\uffff]")
"""Characters that most formats cannot have, and no translation needs."""
_UNIT = re.compile(
    rf"{_WORD}(?:['’.]{_WORD})*+|(?:[{_UNSPACED}]|[{_PUNCTUATION}])[{_MARKS}]*+",
)


@dataclass(frozen=True)
class SegmentPart:
    """Text between two inline codes."""

    text: str
    is_kept: bool = False  # not translated and not written: code in a sentence, a field
    depth: int = 0  # how many inline codes are open around it


@dataclass(frozen=True)
class Segment:
    """A text that is translated as one."""

    parts: tuple[SegmentPart, ...]
    lines: int = 1  # lines that its translation is broken into

    @property
    def whole(self) -> str:
        """The text as it is in the file."""
        return "".join(part.text for part in self.parts)

    @property
    def text(self) -> str:
        """The text to translate, on one line."""
        return " ".join(self.whole.split())

    @property
    def needs_translation(self) -> bool:
        """Whether there is a letter in it that is not kept."""
        return any(not part.is_kept and _has_letter(part.text) for part in self.parts)


Placed = tuple[str, ...] | None
"""A translation, divided among the parts of its segment; None: the segment stays as it is."""


def texts_to_translate(segments: Sequence[Segment]) -> list[str]:
    """Return the texts of those segments that need a translation."""
    return [segment.text for segment in segments if segment.needs_translation]


def place_translations(segments: Sequence[Segment], translations: Sequence[str]) -> list[Placed]:
    """Divide the translations of `texts_to_translate` among the parts of their segments."""
    rest = iter(translations)
    return [
        _placed(segment, next(rest)) if segment.needs_translation else None for segment in segments
    ]


class SegmentCount:
    """Counts the segments of a file while they are found; raises once there are too many."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._segments = self._parts = 0

    def add(self, segment: Segment) -> None:
        """Count a segment; raise if it is too long, or one too many."""
        self._segments += 1
        self._parts += len(segment.parts)
        length = sum(len(part.text) for part in segment.parts)
        for count, most, what in (
            (self._segments, MAX_SEGMENTS, "paragraphs or strings"),
            (self._parts, MAX_PARTS, "pieces of text"),
            (length, MAX_SEGMENT_CHARS, "characters in one line or paragraph"),
        ):
            if count > most:
                raise InputError(f"{self._name} has more than {most:,} {what}: translate less")


def divide(parts: Sequence[SegmentPart], translation: str) -> tuple[str, ...]:
    """Divide a translation among parts, in order; what is kept stays where its words are, if any.

    Parts that the translation has as they are, such as names and code, get these words. The rest
    is divided in proportion to the lengths of the parts, between words. The pieces put together
    are the translation, without what is kept, but for spaces around what is kept.
    """
    placed = [""] * len(parts)
    begin = cursor = 0
    for place, start, end in _anchors(parts, translation):
        _distribute(parts, placed, range(begin, place), translation[cursor:start])
        if not parts[place].is_kept:
            placed[place] += translation[start:end]
        begin, cursor = place + 1, end
    _distribute(parts, placed, range(begin, len(parts)), translation[cursor:])
    return tuple(placed)


def wrap(text: str, lines: int) -> str:
    """Break a text into about equal lines, at spaces."""
    spaces = [place for place, character in enumerate(text) if character == " "]
    chosen: set[int] = set()
    for number in range(1, lines):
        ideal = len(text) * number / lines
        free = [place for place in spaces if place not in chosen]
        if free:
            chosen.add(min(free, key=lambda place: abs(place - ideal)))
    return "".join("\n" if place in chosen else letter for place, letter in enumerate(text))


def _has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))


def _placed(segment: Segment, translation: str) -> Placed:
    """Divide a translation; space at the ends of a segment stays where it is."""
    if " ".join(translation.split()) == segment.text:
        return None
    on_one_line = " ".join(_CONTROL.sub("", translation).split())
    parts = segment.parts
    filled = [place for place, part in enumerate(parts) if part.text.strip()]
    first, last = filled[0], filled[-1] + 1
    whole = "".join(part.text for part in parts[first:last])
    lead, _, trail = whole.partition(whole.strip())
    text = f"{lead}{wrap(on_one_line, segment.lines)}{trail}"
    before, after = ([part.text for part in some] for some in (parts[:first], parts[last:]))
    return (*before, *divide(parts[first:last], text), *after)


def _is_text(part: SegmentPart) -> bool:
    return not part.is_kept and bool(part.text.strip())


def _anchors(parts: Sequence[SegmentPart], translation: str) -> list[tuple[int, int, int]]:
    """Find parts that occur in the translation as they are: (part, start, end), in order.

    Text before, between and after them must have a part to go to.
    """
    if not 1 < len(parts) <= MOST_ANCHORED:
        return []
    found: list[tuple[int, int, int]] = []
    begin = cursor = 0
    for place, part in enumerate(parts):
        at = _occurrence(part, translation, cursor)
        if at is None:
            continue
        if translation[cursor:at].strip() and not any(map(_is_text, parts[begin:place])):
            continue
        begin, cursor = place + 1, at + len(_words(part))
        found.append((place, at, cursor))
    while found and translation[found[-1][2] :].strip():
        if any(map(_is_text, parts[found[-1][0] + 1 :])):
            break
        found.pop()
    return found


def _words(part: SegmentPart) -> str:
    return " ".join(part.text.split())


def _occurrence(part: SegmentPart, translation: str, cursor: int) -> int | None:
    """Return where a part occurs from the cursor on, as whole words; of text, if it is unique."""
    words = _words(part)
    if not words:
        return None
    if not part.is_kept and (len(words) < SHORTEST_NAME or translation.count(words) != 1):
        return None
    case = re.IGNORECASE if part.is_kept else re.NOFLAG
    match = re.compile(re.escape(words), case).search(translation, cursor)
    if match is None or len(match[0]) != len(words):
        return None
    at, end = match.span()
    is_in_word = (at and _joins(translation[at - 1 : at + 1])) or _joins(
        translation[end - 1 : end + 1]
    )
    return None if is_in_word else at


def _joins(two: str) -> bool:
    """Whether two characters belong to one word."""
    return len(two) == 2 and two.isalnum()


def _distribute(parts: Sequence[SegmentPart], placed: list[str], group: range, text: str) -> None:
    """Divide a text among the parts of a group in proportion to their lengths, between words."""
    of_text = [place for place in group if _is_text(parts[place])]
    if not of_text:
        _place_space(parts, placed, group, text)
        return
    units = [match.span() for match in _UNIT.finditer(text)]
    if not units:
        _place_space(parts, placed, range(of_text[0], of_text[0] + 1), text)
        return
    cuts = [0, *_cuts([parts[place] for place in of_text], units), len(units)]
    before = _edge(parts, range(group.start, of_text[0]), of_text[0])
    placed[before] += text[: units[0][0]]
    for (first, last), place in zip(pairwise(cuts), of_text, strict=True):
        if last > first:
            placed[place] += text[units[first][0] : units[last - 1][1]]
    for cut, (left, right) in zip(cuts[1:-1], pairwise(of_text), strict=True):
        if 0 < cut < len(units):
            gap = text[units[cut - 1][1] : units[cut][0]]
            _place_gap(parts, placed, left, right, gap)
    after = _edge(parts, range(of_text[-1] + 1, group.stop), of_text[-1])
    placed[after] += text[units[-1][1] :]


def _edge(parts: Sequence[SegmentPart], blanks: range, otherwise: int) -> int:
    """Return a part of nothing but space among some, or else another one."""
    return next((p for p in blanks if not parts[p].is_kept and parts[p].text), otherwise)


def _place_space(parts: Sequence[SegmentPart], placed: list[str], group: range, space: str) -> None:
    """Put space where there is no text: into a part of the group, or beside it."""
    beside = (*group, group.stop, group.start - 1)
    usable = (p for p in beside if 0 <= p < len(parts) and not parts[p].is_kept)
    place = next(usable, None)
    if place is not None:
        placed[place] += space


def _place_gap(
    parts: Sequence[SegmentPart], placed: list[str], left: int, right: int, gap: str
) -> None:
    """Put the space between two parts where the source has it, or outside of inline codes."""
    between = range(left + 1, right)
    if any(parts[place].is_kept and parts[place].text.strip() for place in between):
        if parts[right].text[:1].isspace():
            placed[right] = gap + placed[right]
        if parts[left].text[-1:].isspace() or not parts[right].text[:1].isspace():
            placed[left] += gap
        return
    blank = next((place for place in between if parts[place].text.isspace()), None)
    if blank is not None:
        if not parts[blank].is_kept:  # else a code stands for the space
            placed[blank] += gap
    elif parts[left].text[-1:].isspace():
        placed[left] += gap
    elif parts[right].text[:1].isspace() or parts[right].depth < parts[left].depth:
        placed[right] = gap + placed[right]
    else:
        placed[left] += gap


def _cuts(parts: Sequence[SegmentPart], units: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Choose between which units each part ends: in proportion, with a space where it had one."""
    weights = [len("".join(part.text.split())) for part in parts]
    offsets = [0, *accumulate(end - start for start, end in units)]
    scale = offsets[-1] / sum(weights)
    least = 1 if len(units) >= len(parts) else 0
    last = 0
    for number, weight in enumerate(accumulate(weights[:-1]), start=1):
        ideal = weight * scale
        low = last + least
        high = max(low, len(units) - least * (len(parts) - number))
        near = min(max(bisect_left(offsets, ideal), low), high)
        has_space = _has_space(parts[number - 1], parts[number])

        def cost(cut: int, ideal: float = ideal, has_space: bool = has_space) -> float:
            is_spaced = 0 < cut < len(units) and units[cut - 1][1] < units[cut][0]
            return abs(offsets[cut] - ideal) + OTHER_KIND * (is_spaced != has_space)

        last = min(range(max(low, near - 2), min(high, near + 2) + 1), key=cost)
        yield last


def _has_space(left: SegmentPart, right: SegmentPart) -> bool:
    return left.text[-1:].isspace() or right.text[:1].isspace()
