"""Segments of markup: which text belongs together, and where it is.

The same rules serve paragraphs of DOCX, ODT and PPTX, segments of XLIFF and blocks of HTML.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from transduce.translation.documents.edits import Edit, EditableText, escape_markup
from transduce.translation.documents.found_parts import FoundPart, assembled
from transduce.translation.documents.limits import MAX_CODE_DEPTH, MAX_PARTS
from transduce.translation.documents.segments import Path, Range
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
    kept: Names = NONE  # their content stays as it is, but is part of the sentence; so do entities
    spaces: Names = NONE  # each stands for a space
    hyphens: Names = NONE  # each stands for a hyphen within a word; they are transparent
    fields: Names = NONE  # numbers in them are computed by the program that shows the file
    field_mark: str = ""  # an element that begins or ends a field, as its type says
    interrupts: bool = False  # a block inside a block is a text of its own
    run: str = ""  # an element with text of one format
    format_of_run: str = ""  # what describes its format
    transparent: Names = NONE  # elements that change nothing about the text around them
    closed_by: Mapping[str, Names] = field(default_factory=dict)  # start tags that end an element
    paired: Names = NONE  # elements of which one begins and another ends something
    needs_space_attribute: bool = False  # without xml:space, spaces at the ends of text are lost
    keeps_lines: bool = False  # a translation has as many lines as its source


@dataclass
class _Code:
    """An inline element that is open."""

    start: int
    number: int


@dataclass
class _Open:
    """A segment that is being read."""

    parts: list[FoundPart] = field(default_factory=list)
    ranges: dict[int, Range] = field(default_factory=dict)  # of inline elements that have ended
    codes: list[_Code] = field(default_factory=list)  # that are open in it
    depth: int = 0  # inline elements that are open: also those that are too deep to be codes
    begin: int = 0  # where it begins at the earliest


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
        self._run_from: int | None = None  # where the run begins; None: it has more than a text
        self._run_part: FoundPart | None = None  # whose text is in the run
        self._is_pinned = False  # whether something that must not be moved is before the next part
        self._ended: list[Callable[[int], None]] = []  # told where what has just ended ends

    # What a scanner tells

    def start(self, name: str, attributes: Attributes, at: int) -> None:
        """Take note of a start tag."""
        self._end_event(at)
        rules = self._rules
        while self._stack and name in rules.closed_by.get(self._stack[-1], NONE):
            self._pop(at, is_own=False)
        self._stack.append(name)
        self._count[name] += 1
        self._may_pad = rules.needs_space_attribute and XML_SPACE not in attributes
        if self._untranslated:
            self._untranslated += 1
            return
        self._note_untranslated(name, attributes)
        if name in rules.blocks:
            self._begin_block(at)
        elif name in rules.breaks:
            self._spoil_run()
            self.flush(at)
        elif name in rules.spaces:
            self._note_start(name, at)
            self._add(FoundPart([" "], is_kept=True, is_code=self._is_in_code, path=self._path))
        elif name in rules.hyphens:
            self._add_hyphen(at)
        elif name == rules.format_of_run and self._format_from is None:
            self._format_from = at
        else:
            self._note_start(name, at)
            if name == rules.field_mark:
                types = (v for k, v in attributes.items() if k.endswith(" fldCharType"))
                self._field_depth += FIELD_STEPS.get(next(types, ""), 0)

    def end(self, name: str, at: int) -> None:
        """Take note of an end tag; one that nothing has opened is passed over."""
        self._end_event(at)
        self._may_pad = False
        if not self._count[name] and name in self._rules.blocks:
            self.flush(at)
        while self._count[name]:
            is_own = self._stack[-1] == name
            self._pop(at, is_own=is_own)
            if is_own:
                break

    def text(self, text: str, at: int) -> None:
        """Take note of text, which may come in pieces."""
        self._tell_ended(at)
        if not self._counts():
            return
        if self._text_from is None:
            self._text_from = at
            self._add(self._new_part(at))
            self._run_part = self._open[-1].parts[-1]
            if self._run_from is None:
                self._spoil_run()
        self._open[-1].parts[-1].pieces.append(text)

    def other(self, at: int) -> None:
        """Take note of a comment."""
        self._end_event(at)
        self._may_pad = False

    def flush(self, at: int = 0) -> None:
        """End the segment that is being read."""
        now = self._open[-1]
        parts, ranges = now.parts, {n: r for n, r in now.ranges.items() if r[0] >= now.begin}
        now.parts, now.ranges, now.begin = [], {}, at
        self._is_pinned = False
        if any(part.text.strip() and not part.is_kept for part in parts):
            whole = "".join(part.text for part in parts)
            lines = whole.strip().count("\n") + 1 if self._rules.keeps_lines else 1
            text = self._target.content.text
            self._target.add(
                *assembled(parts, ranges, text=text, encode=escape_markup, lines=lines)
            )

    # Parts

    def _counts(self) -> bool:
        rules = self._rules
        if self._untranslated and not self._is_kept:
            return False
        if rules.directly_in is not None:
            return bool(self._stack) and self._stack[-1] in rules.directly_in
        return rules.within is None or any(self._count[name] for name in rules.within)

    @property
    def _path(self) -> Path:
        return tuple(code.number for code in self._open[-1].codes)

    @property
    def _is_in_code(self) -> bool:
        """Whether the last inline element is a code, and not too deep for that."""
        return 0 < self._open[-1].depth <= MAX_CODE_DEPTH

    def _new_part(self, at: int) -> FoundPart:
        is_kept = bool(self._untranslated)
        return FoundPart(
            [],
            is_kept=is_kept,
            is_code=is_kept and self._is_in_code,
            path=self._path,
            key=(self._codes, self._format) if self._rules.run or is_kept else None,
            padding=Edit(at - 1, at - 1, ' xml:space="preserve"') if self._may_pad else None,
            is_pinned=self._is_pinned,
            style=self._format if self._rules.run else None,
            run_from=self._run_from,
        )

    def _add(self, part: FoundPart) -> None:
        self._is_pinned = False
        parts = self._open[-1].parts
        last = parts[-1] if parts else None
        if last and part.key is not None and last.key == part.key and last.is_kept == part.is_kept:
            return  # the text that follows belongs to it
        if len(parts) == MAX_PARTS:
            self.flush(0)  # which counts them, so that the next is refused
        self._open[-1].parts.append(part)

    def _add_hyphen(self, at: int) -> None:
        """Add a hyphen to the text before it, if that has the same format and no code between."""
        parts = self._open[-1].parts
        if parts and parts[-1].key == (self._codes, self._format) and not parts[-1].is_kept:
            parts[-1].pieces.append("-")
            self._ended.append(lambda end: parts[-1].ranges.append((at, end)))

    def _end_event(self, at: int) -> None:
        """Take note of where the last event ends, which may be text."""
        self._tell_ended(at)
        if self._text_from is None:
            return
        part = self._open[-1].parts[-1]
        if not part.is_kept:
            part.ranges.append((self._text_from, at))
        if self._field_depth and not _LETTER.search(part.text):
            part.is_kept, part.ranges, part.key = True, [], None
        self._text_from = None

    def _tell_ended(self, at: int) -> None:
        for tell in self._ended:
            tell(at)
        self._ended.clear()

    # Elements

    def _note_untranslated(self, name: str, attributes: Attributes) -> None:
        """Take note of an element that stays as it is, if this is one."""
        rules, stays = self._rules, _is_not_translated(attributes)
        if name in rules.skipped or (stays and name in rules.blocks):
            self._untranslated, self._is_kept = 1, False
        elif stays or name in rules.kept or name.startswith("&"):
            self._untranslated, self._is_kept = 1, True
            self._codes += 1

    def _begin_block(self, at: int) -> None:
        if self._rules.interrupts:
            self._spoil_run()
            self._open.append(_Open())
        else:
            self.flush(at)

    def _pop(self, at: int, *, is_own: bool) -> None:
        """End the last element, by its own end tag or by another tag."""
        last = self._stack.pop()
        self._count[last] -= 1
        self._close(last, at, is_own=is_own)

    def _close(self, name: str, at: int, *, is_own: bool) -> None:
        rules = self._rules
        if self._untranslated:
            self._untranslated -= 1
            if self._untranslated:
                return
            self._codes += 1
        if name in rules.blocks:
            self.flush(at)
            if rules.interrupts:
                self._open.pop()
        elif name == rules.format_of_run and self._format_from is not None:
            self._format = self._target.content.text[self._format_from : at]
            self._format_from = None
        elif name not in rules.breaks:
            self._note_end(name, is_own=is_own)

    def _note_start(self, name: str, at: int) -> None:
        """Take note of an inline element that begins."""
        rules, now = self._rules, self._open[-1]
        if name == rules.run:
            self._format, self._run_from, self._run_part = "", at, None
        elif name not in rules.transparent and self._format_from is None:
            self._codes += 1
            self._spoil_run()
            now.depth += 1
            if now.depth <= MAX_CODE_DEPTH:
                now.codes.append(_Code(at, self._codes))
            is_paired = name in rules.paired or name == rules.field_mark
            self._is_pinned |= is_paired or now.depth > MAX_CODE_DEPTH
            self._field_depth += name in rules.fields

    def _note_end(self, name: str, *, is_own: bool) -> None:
        """Take note of an inline element that ends, by its own end tag or by another one."""
        rules, now = self._rules, self._open[-1]
        if name == rules.run:
            self._end_run()
        elif name not in rules.transparent and self._format_from is None and now.depth:
            self._codes += 1
            now.depth -= 1
            self._is_pinned |= now.depth >= MAX_CODE_DEPTH
            self._field_depth -= name in rules.fields
            if now.depth < MAX_CODE_DEPTH:
                code = now.codes.pop()
                if is_own:
                    self._ended.append(partial(_note_range, now.ranges, code))

    def _end_run(self) -> None:
        """Note where the run ends, for the part whose text it has."""
        part = self._run_part
        if part is not None and part.run_from is not None:
            self._ended.append(partial(setattr, part, "run_to"))
        self._format, self._run_from, self._run_part = "", None, None

    def _spoil_run(self) -> None:
        """Note that the run has more than one text."""
        if self._run_part is not None:
            self._run_part.run_from = self._run_part.run_to = None
        self._run_from = self._run_part = None


def _note_range(ranges: dict[int, Range], code: _Code, at: int) -> None:
    ranges[code.number] = (code.start, at)


def _is_not_translated(attributes: Attributes) -> bool:
    return (
        attributes.get("translate") == "no"
        or attributes.get("mtype") == "protected"
        or "notranslate" in attributes.get("class", "").split()
    )
