"""Segments of markup: which text belongs together, and where it is.

The same rules serve paragraphs of DOCX, ODT and PPTX, segments of XLIFF and blocks of HTML.
"""

import re
from collections import Counter
from dataclasses import dataclass, field

from transduce.translation.documents.edits import Edit, EditableText, Slot, escape_markup
from transduce.translation.documents.limits import MAX_PARTS
from transduce.translation.documents.segments import Segment, SegmentPart
from transduce.translation.documents.xml_scanner import Attributes

Names = frozenset[str]
NONE: Names = frozenset()
XML_SPACE = "http://www.w3.org/XML/1998/namespace space"
FIELD_STEPS = {"begin": 1, "end": -1}
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True)
class MarkupRules:
    """Which elements mean what, by name."""

    blocks: Names  # their borders end a segment, or interrupt it if `interrupts`
    within: Names | None = None  # text counts only inside one of these; None: anywhere
    directly_in: Names | None = None  # text counts only directly in one of these; None: anywhere
    breaks: Names = NONE  # they end a segment
    skipped: Names = NONE  # their content stays as it is, and is no part of a segment
    kept: Names = NONE  # their content stays as it is, but is part of the sentence
    spaces: Names = NONE  # each stands for a space
    fields: Names = NONE  # numbers in them are computed by the program that shows the file
    field_mark: str = ""  # an element that begins or ends a field, as its type says
    interrupts: bool = False  # a block inside a block is a text of its own
    run: str = ""  # an element with text of one format
    format_of_run: str = ""  # what describes its format
    transparent: Names = NONE  # elements that change nothing about the text around them
    needs_space_attribute: bool = False  # without xml:space, spaces at the ends of text are lost
    keeps_lines: bool = False  # a translation has as many lines as its source


@dataclass
class _Found:
    """A part that is being read."""

    pieces: list[str]
    is_kept: bool
    depth: int
    key: object  # parts with the same key, one after the other, are one
    ranges: list[tuple[int, int]] = field(default_factory=list)
    padding: Edit | None = None

    @property
    def text(self) -> str:
        """What was read so far."""
        return "".join(self.pieces)


@dataclass
class _Open:
    """A segment that is being read."""

    parts: list[_Found] = field(default_factory=list)
    depth: int = 0  # inline elements that are open in it


class SegmentCollector:
    """Collects segments while a scanner tells of markup; a `MarkupHandler`."""

    def __init__(self, target: EditableText, rules: MarkupRules) -> None:
        self._target = target
        self._rules = rules
        self._open = [_Open()]
        self._stack: list[str] = []
        self._count: Counter[str] = Counter()  # of names in the stack
        self._text_from: int | None = None  # where the text that is being read begins
        self._untranslated = 0  # elements in the stack, of which the first is skipped or kept
        self._is_kept = False
        self._codes = 0  # inline elements so far: what parts two parts
        self._format = ""  # of the run
        self._format_from: int | None = None
        self._field_depth = 0
        self._may_pad = False  # whether the last event was a start tag without xml:space

    # What a scanner tells

    def start(self, name: str, attributes: Attributes, at: int) -> None:
        """Take note of a start tag."""
        self._end_text(at)
        rules = self._rules
        self._stack.append(name)
        self._count[name] += 1
        self._may_pad = rules.needs_space_attribute and XML_SPACE not in attributes
        if self._untranslated:
            self._untranslated += 1
            return
        is_block = name in rules.blocks
        if name in rules.skipped or (is_block and _is_not_translated(attributes)):
            self._untranslated, self._is_kept = 1, False
        elif name in rules.kept or _is_not_translated(attributes):
            self._untranslated, self._is_kept = 1, True
            self._codes += 1
        if is_block:
            self._begin_block()
        elif name in rules.breaks:
            self.flush()
        elif name in rules.spaces:
            self._add(_Found([" "], True, self._open[-1].depth, None))
        elif name == rules.format_of_run and self._format_from is None:
            self._format_from = at
        else:
            self._note_code(name, 1)
            if name == rules.field_mark:
                types = (v for k, v in attributes.items() if k.endswith(" fldCharType"))
                self._field_depth += FIELD_STEPS.get(next(types, ""), 0)

    def end(self, name: str, at: int) -> None:
        """Take note of an end tag; one that nothing has opened is passed over."""
        self._end_text(at)
        self._may_pad = False
        if not self._count[name] and name in self._rules.blocks:
            self.flush()
        while self._count[name]:
            last = self._stack.pop()
            self._count[last] -= 1
            self._close(last, at)
            if last == name:
                break

    def text(self, text: str, at: int) -> None:
        """Take note of text, which may come in pieces."""
        if not self._counts():
            return
        if self._text_from is None:
            self._text_from = at
            self._add(self._new_part(at))
        self._open[-1].parts[-1].pieces.append(text)

    def other(self, at: int) -> None:
        """Take note of a comment."""
        self._end_text(at)
        self._may_pad = False

    def flush(self) -> None:
        """End the segment that is being read."""
        parts = self._open[-1].parts
        self._open[-1].parts = []
        found = tuple(SegmentPart(part.text, part.is_kept, part.depth) for part in parts)
        if any(part.text.strip() and not part.is_kept for part in found):
            whole = "".join(part.text for part in found)
            lines = whole.strip().count("\n") + 1 if self._rules.keeps_lines else 1
            slots = (Slot(tuple(part.ranges), escape_markup, part.padding) for part in parts)
            self._target.add(Segment(found, lines), slots)

    # Parts

    def _counts(self) -> bool:
        rules = self._rules
        if self._untranslated and not self._is_kept:
            return False
        if rules.directly_in is not None:
            return bool(self._stack) and self._stack[-1] in rules.directly_in
        return rules.within is None or any(self._count[name] for name in rules.within)

    def _new_part(self, at: int) -> _Found:
        is_kept = bool(self._untranslated)
        key = (self._codes, self._format) if self._rules.run or is_kept else None
        padding = Edit(at - 1, at - 1, ' xml:space="preserve"') if self._may_pad else None
        return _Found([], is_kept, self._open[-1].depth, key, padding=padding)

    def _add(self, part: _Found) -> None:
        parts = self._open[-1].parts
        last = parts[-1] if parts else None
        if last and part.key is not None and last.key == part.key and last.is_kept == part.is_kept:
            return  # the text that follows belongs to it
        if len(parts) == MAX_PARTS:
            self.flush()  # which counts them, so that the next is refused
        self._open[-1].parts.append(part)

    def _end_text(self, at: int) -> None:
        if self._text_from is None:
            return
        part = self._open[-1].parts[-1]
        if not part.is_kept:
            part.ranges.append((self._text_from, at))
        if self._field_depth and not _LETTER.search(part.text):
            part.is_kept, part.ranges, part.key = True, [], None
        self._text_from = None

    # Elements

    def _begin_block(self) -> None:
        if self._rules.interrupts:
            self._open.append(_Open())
        else:
            self.flush()

    def _close(self, name: str, at: int) -> None:
        rules = self._rules
        if self._untranslated:
            self._untranslated -= 1
            if self._untranslated:
                return
            self._codes += 1
        if name in rules.blocks:
            self.flush()
            if rules.interrupts:
                self._open.pop()
        elif name == rules.format_of_run and self._format_from is not None:
            self._format = self._target.content.text[self._format_from : at]
            self._format_from = None
        elif name not in rules.breaks:
            self._note_code(name, -1)

    def _note_code(self, name: str, step: int) -> None:
        """Take note of an inline element that begins or ends."""
        rules = self._rules
        if name == rules.run:
            self._format = ""
        elif name not in rules.transparent and self._format_from is None:
            self._codes += 1
            self._open[-1].depth += step
            self._field_depth += step * (name in rules.fields)


def _is_not_translated(attributes: Attributes) -> bool:
    return (
        attributes.get("translate") == "no"
        or attributes.get("mtype") == "protected"
        or "notranslate" in attributes.get("class", "").split()
    )
