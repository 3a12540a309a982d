"""Parts of a segment as a format finds them, made into a segment whose codes can be moved."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from transduce.translation.documents.edits import Edit, Encode, Slot
from transduce.translation.documents.segments import (
    Path,
    Range,
    Segment,
    SegmentPart,
    common_length,
)


@dataclass
class FoundPart:
    """A part that is being read."""

    pieces: list[str]
    is_kept: bool = False
    is_code: bool = False  # it is the content of the last code of its path, and kept
    path: Path = ()  # inline codes around it
    key: object = None  # parts with the same key, one after the other, are one
    ranges: list[Range] = field(default_factory=list)
    encode: Encode | None = None  # None: as all text of the segment
    padding: Edit | None = None
    is_pinned: bool = False  # what is between it and the part before must stay there
    style: str | None = None  # of its run; None: the format has no runs
    run_from: int | None = None  # where its runs are; None: not all of them are its own
    run_to: int | None = None

    @property
    def text(self) -> str:
        """What was read so far."""
        return "".join(self.pieces)

    @property
    def outside(self) -> tuple[int | None, int | None]:
        """Where it begins and ends: outside of its runs, if there are any."""
        if self.style is not None:
            return self.run_from, self.run_to
        return (self.ranges[0][0], self.ranges[-1][1]) if self.ranges else (None, None)


@dataclass(frozen=True)
class _Piece:
    """A part of a segment, with its slot."""

    part: SegmentPart
    slot: Slot
    outside: tuple[int | None, int | None] = (None, None)
    is_pinned: bool = False

    @property
    def around(self) -> Path:
        """The codes around it, without what is kept itself."""
        return self.part.path[:-1] if self.part.is_kept else self.part.path


def assembled(
    found: Sequence[FoundPart],
    ranges: Mapping[int, Range],
    *,
    text: str,
    encode: Encode,
    lines: int = 1,
) -> tuple[Segment, list[Slot]]:
    """Make a segment of parts.

    ranges: where inline codes are, from their first to their last character; those that begin or
        end in another segment are not among them.
    text: of the file.
    encode: how text is written where there was none.
    """
    assembly = _Assembly(found, ranges, text, encode)
    pieces = assembly.with_empty(assembly.with_points(assembly.pieces(found)))
    parts = tuple(piece.part for piece in pieces)
    return Segment(parts, lines, assembly.ranges), [piece.slot for piece in pieces]


class _Assembly:
    """Numbers codes and finds places for text between them."""

    def __init__(
        self, found: Sequence[FoundPart], ranges: Mapping[int, Range], text: str, encode: Encode
    ) -> None:
        numbers = {number for one in found for number in one.path}
        self.ranges = {number: place for number, place in ranges.items() if number in numbers}
        self._text, self._encode = text, encode
        self._has_runs = any(one.style is not None for one in found)
        self._numbers = count(1 + max(numbers, default=0))
        self._wraps: dict[Path, Encode] = {}  # how text is written as a run of the usual style

    def pieces(self, found: Sequence[FoundPart]) -> list[_Piece]:
        """Return parts; a run of an unusual style is a code, and so is all that is kept."""
        shared, usual, pieces = _length_of_shared_path(found), _usual_styles(found), []
        for one in found:
            path, (start, end) = one.path[shared:], one.outside
            if one.is_kept and not one.is_code:
                path = (*path, next(self._numbers))
            elif one.style is not None and not one.is_kept and one.style != usual[one.path]:
                path = (*path, next(self._numbers))
                if start is not None and end is not None:
                    self.ranges[path[-1]] = (start, end)
            elif one.style is not None and not one.is_kept:
                self._note_wrap(path, one)
            part = SegmentPart(one.text, one.is_kept, path)
            slot = Slot(tuple(one.ranges), one.encode or self._encode, one.padding)
            pieces.append(_Piece(part, slot, (start, end), one.is_pinned))
        return pieces

    def _note_wrap(self, path: Path, one: FoundPart) -> None:
        start, end = one.outside
        if path in self._wraps or start is None or end is None or len(one.ranges) != 1:
            return
        first, last = one.ranges[0]
        before, after, at = self._text[start:first], self._text[last:end], one.padding
        if at is not None:
            before = before[: at.start - start] + at.new + before[at.start - start :]
        self._wraps[path] = lambda text: f"{before}{self._encode(text)}{after}" if text else ""

    def with_points(self, pieces: Sequence[_Piece]) -> list[_Piece]:
        """Put a part for the code between two parts that are in the same codes."""
        found: list[_Piece] = []
        for piece in pieces:
            last = found[-1] if found else None
            if last and last.part.path == piece.part.path:
                path = (*piece.part.path, next(self._numbers))
                start, end = last.outside[1], piece.outside[0]
                if start is not None and end is not None and not piece.is_pinned:
                    self.ranges[path[-1]] = (start, end)
                found.append(_Piece(SegmentPart("", True, path), Slot((), str)))
            found.append(piece)
        return found

    def with_empty(self, pieces: Sequence[_Piece]) -> list[_Piece]:
        """Put an empty part wherever text can be beside codes, and there is none."""
        with_text = {piece.around for piece in pieces if piece.part.text.strip()} | {()}
        found: list[_Piece] = []
        for before, after in zip((_EDGE, *pieces), (*pieces, _EDGE), strict=True):
            for path, place in self._borders(before, after):
                encode = self._wraps.get(path) if self._has_runs else self._encode
                if path in with_text and encode is not None:
                    slot = Slot(((place, place),), encode)
                    found.append(_Piece(SegmentPart("", path=path), slot))
            found.append(after)
        return found[:-1]

    def _borders(self, before: _Piece, after: _Piece) -> Iterator[tuple[Path, int]]:
        """Yield where there is no text beside a code: what it is in, and a place in the file."""
        left, right, ranges = before.part.path, after.part.path, self.ranges
        same = common_length(left, right)
        for depth in reversed(range(same, len(left))):  # codes that end here
            is_free = depth > same or len(right) > same or after is _EDGE
            if is_free and left[depth] in ranges:
                yield left[:depth], ranges[left[depth]][1]
        has_place = left[same] in ranges if len(left) > same else before is not _EDGE
        for depth in range(same, len(right)):  # codes that begin here
            if (depth > same or not has_place) and right[depth] in ranges:
                yield right[:depth], ranges[right[depth]][0]


_EDGE = _Piece(SegmentPart(""), Slot((), str))
"""Stands for what is before and after a segment."""


def _length_of_shared_path(found: Sequence[FoundPart]) -> int:
    """Return how many codes are around the whole segment."""
    paths = [one.path[:-1] if one.is_code else one.path for one in found]
    shortest, longest = min(paths), max(paths)  # all others begin as both of them do
    return common_length(shortest, longest)


def _usual_styles(found: Sequence[FoundPart]) -> dict[Path, str]:
    """Return the style that most of the text in a code has, by the path of the code."""
    counts: dict[Path, Counter[str]] = {}
    for one in found:
        if one.style is not None and not one.is_kept:
            counts.setdefault(one.path, Counter())[one.style] += len(one.text)
    return {path: styles.most_common(1)[0][0] for path, styles in counts.items()}
