"""What formats and translators exchange.

A format finds the segments of a file: a paragraph, a cell, a cue, a string. The parts of a segment
are its text between inline codes, such as tags and runs. A segment is translated as one text;
`inline_codes` decides which words of its translation go to which part.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from transduce.errors import InputError
from transduce.translation.documents.limits import MAX_PARTS, MAX_SEGMENT_CHARS, MAX_SEGMENTS

Range = tuple[int, int]
"""The first character of a part of a file, and the one after its last."""
Path = tuple[int, ...]
"""The inline codes around something, from the outside in; each has a number."""


@dataclass(frozen=True)
class SegmentPart:
    """Text between two inline codes."""

    text: str  # "" if there may be some
    is_kept: bool = False  # it stays as it is, and is the content of the last code of its path
    path: Path = ()


@dataclass(frozen=True)
class Segment:
    """A text that is translated as one.

    Between two parts of the same path is at least one code.
    """

    parts: tuple[SegmentPart, ...]
    lines: int = 1  # lines that its translation is broken into
    ranges: Mapping[int, Range] = field(default_factory=dict)  # of the codes that may be moved

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


@dataclass(frozen=True)
class PlacedText:
    """A translation: the text of each part, and what is written in place of some codes."""

    texts: tuple[str, ...]  # of what is kept: ""
    moves: tuple[tuple[Range, Range], ...] = ()  # where, and what: ranges of the file as it was


class SegmentCount:
    """Counts the segments of a file while they are found; raises once there are too many."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._segments = self._parts = 0

    def add(self, segment: Segment) -> None:
        """Count a segment; raise if it is too long, or one too many."""
        self._segments += 1
        self._parts += sum(bool(part.text) for part in segment.parts)
        check_length(sum(len(part.text) for part in segment.parts), self._name)
        _check(self._segments, MAX_SEGMENTS, "paragraphs or strings", self._name)
        _check(self._parts, MAX_PARTS, "pieces of text", self._name)


def check_length(characters: int, name: str) -> None:
    """Raise if a text of a file is too long."""
    _check(characters, MAX_SEGMENT_CHARS, "characters in one line or paragraph", name)


def common_length(one: Path, other: Path) -> int:
    """Return how many codes two paths have in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _check(count: int, most: int, what: str, name: str) -> None:
    if count > most:
        raise InputError(f"{name} has more than {most:,} {what}: translate less")


def _has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))
