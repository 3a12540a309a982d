"""Text whose parts are replaced where they are, so that every other character stays the same."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from transduce.translation.documents.encodings import DecodedText
from transduce.translation.documents.segments import Placed, Segment, SegmentCount

Encode = Callable[[str], str]
Range = tuple[int, int]

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Edit:
    """A range of a text, and what it is replaced by."""

    start: int
    end: int
    new: str


@dataclass(frozen=True)
class Slot:
    """Where the text of a part is, and how text is written there."""

    ranges: tuple[Range, ...]  # the first gets the text, the others become empty; none: kept
    encode: Encode
    padding: Edit | None = None  # what is needed where the text begins or ends with a space

    def edits(self, text: str) -> Iterator[Edit]:
        """Yield what writes a text here."""
        for number, (start, end) in enumerate(self.ranges):
            yield Edit(start, end, "" if number else self.encode(text))
        if self.padding and text != text.strip():
            yield self.padding


@dataclass
class EditableText:
    """A text with its segments, and a slot for each of their parts."""

    content: DecodedText
    segments: list[Segment] = field(default_factory=list)
    slots: list[tuple[Slot, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._count = SegmentCount(self.content.name)

    def add(self, segment: Segment, slots: Iterable[Slot]) -> None:
        """Add a segment; raise if there are too many."""
        self._count.add(segment)
        self.segments.append(segment)
        self.slots.append(tuple(slots))

    def written(self, placed: Sequence[Placed]) -> bytes:
        """Return the file with other text in its slots."""
        return self.content.encoded(edited(self.content.text, self.edits(placed)))

    def edits(self, placed: Sequence[Placed]) -> Iterator[Edit]:
        """Yield what writes other text into the slots."""
        for texts, slots in zip(placed, self.slots, strict=True):
            if texts is not None:
                for text, slot in zip(texts, slots, strict=True):
                    yield from slot.edits(text)


def edited(text: str, edits: Iterable[Edit], *, start: int = 0, end: int | None = None) -> str:
    """Return a text, from `start` to `end`, with ranges replaced, which do not overlap."""
    pieces, done = [], start
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        pieces += [text[done : edit.start], edit.new]
        done = edit.end
    return "".join([*pieces, text[done:end]])


def escape_markup(text: str) -> str:
    """Write text as content of XML or HTML; what XML cannot express is left out."""
    plain = _NOT_XML.sub("", text)
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
