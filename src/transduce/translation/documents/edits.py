"""Text whose parts are replaced where they are, so that every other character stays the same."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from transduce.errors import InputError
from transduce.translation.documents.encodings import DecodedText
from transduce.translation.documents.segments import PlacedText, Range, Segment, SegmentCount

Encode = Callable[[str], str]

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Edit:
    """A range of a text, and what it is replaced by."""

    start: int
    end: int
    new: str = ""
    moved: Range | None = None  # instead of `new`: what this range has become


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

    def written(self, placed: Sequence[PlacedText | None]) -> bytes:
        """Return the file with other text in its slots."""
        return self.content.encoded(edited(self.content, self.edits(placed)))

    def edits(self, placed: Sequence[PlacedText | None]) -> Iterator[Edit]:
        """Yield what writes other text into the slots."""
        for one, slots in zip(placed, self.slots, strict=True):
            if one is not None:
                for text, slot in zip(one.texts, slots, strict=True):
                    yield from slot.edits(text)
                for (start, end), moved in one.moves:
                    yield Edit(start, end, moved=moved)


def edited(
    content: DecodedText, edits: Iterable[Edit], *, start: int = 0, end: int | None = None
) -> str:
    """Return a text, from `start` to `end`, with ranges replaced.

    An edit may be within a range that is moved; others that overlap raise `InputError`.
    """
    last = len(content.text) if end is None else end
    return _Edits(content, edits).applied((start, last))


class _Edits:
    """Edits of a text, in order; of those that begin at one place, the longest is the last."""

    def __init__(self, content: DecodedText, edits: Iterable[Edit]) -> None:
        self._text, self._name = content.text, content.name
        self._edits = sorted(edits, key=_place)

    def applied(self, within: Range, *, is_moved: bool = False) -> str:
        """Return what a range becomes; if it is moved, without what is put in its place."""
        start, end = within
        # At the start of what is moved, an insertion is before it, and its own move is over.
        index = bisect_left(self._edits, (start, end + 1 if is_moved else start), key=_place)
        pieces, done = [], start
        while index < len(self._edits) and self._edits[index].start < end + (not is_moved):
            edit = self._edits[index]
            if edit.end > end:
                break
            if edit.start < done:
                raise InputError(
                    f"{self._name} character {edit.start + 1:,}: two texts are found "
                    "in one place, so that neither can be written: this is a fault of this program"
                )
            new = edit.new if edit.moved is None else self.applied(edit.moved, is_moved=True)
            pieces += [self._text[done : edit.start], new]
            done = edit.end
            index += 1
            if edit.moved is not None:
                index = bisect_left(self._edits, (done, done), key=_place)
        return "".join([*pieces, self._text[done:end]])


def _place(edit: Edit) -> Range:
    return edit.start, edit.end


def escape_markup(text: str) -> str:
    """Write text as content of XML or HTML; what XML cannot express is left out."""
    plain = _NOT_XML.sub("", text)
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
