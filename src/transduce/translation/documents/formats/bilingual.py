"""XLIFF and TMX: targets that are missing are added beside their sources."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import quoteattr

from transduce.errors import InputError
from transduce.translation.documents.collector import MarkupRules, SegmentCollector
from transduce.translation.documents.edits import Edit, EditableText, edited
from transduce.translation.documents.encodings import DecodedText, decode
from transduce.translation.documents.segments import PlacedText, Range, Segment, SegmentCount
from transduce.translation.documents.xml_scanner import Attributes, scan_xml

XML_LANG = "http://www.w3.org/XML/1998/namespace lang"
RULES = MarkupRules(
    blocks=frozenset(),
    skipped=frozenset({"bpt", "ept", "it", "ph", "ut"}),  # codes of another format
    paired=frozenset({"bpt", "ept", "it", "bx", "ex", "sc", "ec", "sm", "em"}),
    keeps_lines=True,
)
XLIFF_UNITS = frozenset({"trans-unit", "segment"})
_TAG_NAME = re.compile(r"<([^\s/>]+)")


@dataclass
class _Element:
    """Where an element is: its start tag, its content, its end tag, and what follows it."""

    start: int
    inner: int = -1
    end: int = -1
    after: int = -1


@dataclass
class _Unit:
    """A source with its segments, and where its target goes."""

    source: _Element
    found: EditableText
    place: Range  # what is replaced
    before: str  # what is written before and after the content
    after: str


@dataclass
class BilingualFile:
    """A file with sources and targets."""

    content: DecodedText
    units: list[_Unit] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._count = SegmentCount(self.content.name)

    def add(self, unit: _Unit) -> None:
        """Add a unit; raise if there are too many."""
        for segment in unit.found.segments:
            self._count.add(segment)
        self.units.append(unit)

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments of the sources whose target is missing."""
        return [segment for unit in self.units for segment in unit.found.segments]

    def written(self, placed: Sequence[PlacedText | None]) -> bytes:
        """Return the file with the missing targets."""
        rest, edits = iter(placed), []
        for unit in self.units:
            own = unit.found.edits([next(rest) for _ in unit.found.segments])
            target = edited(self.content, own, start=unit.source.inner, end=unit.source.end)
            edits.append(Edit(*unit.place, f"{unit.before}{target}{unit.after}"))
        return self.content.encoded(edited(self.content, edits))


def parse_xliff(content: bytes, name: str) -> BilingualFile:
    """Find the sources of XLIFF 1.2 and 2 that have no target, or an empty one."""
    file = BilingualFile(decode(content, name, is_markup=True))
    scan_xml(file.content.text, _XliffReader(file), name=name)
    return file


def parse_tmx(
    content: bytes, name: str, *, source: str | None, target: str | None
) -> BilingualFile:
    """Find the units of a translation memory that lack the target language.

    The source language is the one given, or else the one that the file names.
    """
    if target is None:
        raise InputError(
            f"{name}: the language to translate to is not known: name it, such as --to de"
        )
    file = BilingualFile(decode(content, name, is_markup=True))
    scan_xml(file.content.text, _TmxReader(file, source, target), name=name)
    return file


class _Reader:
    """Takes note of where elements are, and collects the segments of one; a `MarkupHandler`."""

    def __init__(self, file: BilingualFile) -> None:
        self.file = file
        self.stack: list[str] = []
        self._waiting: list[tuple[_Element, str]] = []  # fields that the next event fills
        self._collector: SegmentCollector | None = None
        self._collected_from = 0

    def start(self, name: str, attributes: Attributes, at: int) -> None:
        """Take note of a start tag."""
        self._mark(at)
        local = name.rpartition(" ")[2]
        if self._collector is not None:
            self._collector.start(local, attributes, at)
        else:
            self.began(local, attributes, at)
        self.stack.append(local)

    def end(self, name: str, at: int) -> None:
        """Take note of an end tag."""
        self._mark(at)
        local = name.rpartition(" ")[2]
        self.stack.pop()
        if self._collector is None or len(self.stack) == self._collected_from:
            self.ended(local, at)
        else:
            self._collector.end(local, at)

    def text(self, text: str, at: int) -> None:
        """Take note of text."""
        self._mark(at)
        if self._collector is not None:
            self._collector.text(text, at)

    def other(self, at: int) -> None:
        """Take note of a comment."""
        self._mark(at)
        if self._collector is not None:
            self._collector.other(at)

    def began(self, name: str, attributes: Attributes, at: int) -> None:
        """Take note of an element that is not inside of collected text."""
        raise NotImplementedError

    def ended(self, name: str, at: int) -> None:
        """Take note of the end of such an element."""
        raise NotImplementedError

    def opened(self, at: int) -> _Element:
        """Return an element that begins here, with a place for its content."""
        element = _Element(at)
        self._waiting.append((element, "inner"))
        return element

    def closed(self, element: _Element, at: int) -> None:
        """Note where an element ends."""
        element.end = at
        self._waiting.append((element, "after"))

    def collect(self) -> EditableText:
        """Collect the segments of the element that begins now."""
        found = EditableText(self.file.content)
        self._collector, self._collected_from = SegmentCollector(found, RULES), len(self.stack)
        return found

    def collected(self, at: int) -> None:
        """End the element whose segments are collected."""
        if self._collector is not None:
            self._collector.other(at)
            self._collector.flush()
        self._collector = None

    def space_before(self, at: int) -> str:
        """Return the line break and indentation before a tag."""
        text = self.file.content.text
        start = at
        while start and text[start - 1] in " \t\r\n":
            start -= 1
        return text[start:at]

    def tag_name(self, at: int) -> str:
        """Return the name of the tag that begins here, as it is written."""
        match = _TAG_NAME.match(self.file.content.text, at)
        assert match is not None
        return match[1]

    def _mark(self, at: int) -> None:
        for element, which in self._waiting:
            setattr(element, which, at)
        self._waiting.clear()


class _XliffReader(_Reader):
    """Finds sources without a target; alternatives from memories are passed over."""

    def __init__(self, file: BilingualFile) -> None:
        super().__init__(file)
        self._passed_over = 0  # elements that are open and not translated
        self._source: _Element | None = None
        self._target: _Element | None = None
        self._last: _Element | None = None  # the source, segmented or not
        self._found = EditableText(file.content)

    def began(self, name: str, attributes: Attributes, at: int) -> None:
        """Take note of a unit, or of its source or target."""
        if self._passed_over or name == "alt-trans" or attributes.get("translate") == "no":
            self._passed_over += 1
            return
        if name in XLIFF_UNITS:
            self._source = self._target = None
        is_in_unit = bool(self.stack) and self.stack[-1] in XLIFF_UNITS
        if is_in_unit and name == "source":
            self._source = self._last = self.opened(at)
            self._found = self.collect()
        elif is_in_unit and name == "seg-source":
            self._last = self.opened(at)
        elif is_in_unit and name == "target":
            self._target = self.opened(at)

    def ended(self, name: str, at: int) -> None:
        """Take note of the end of a unit, or of its source or target."""
        if self._passed_over:
            self._passed_over -= 1
            return
        is_in_unit = bool(self.stack) and self.stack[-1] in XLIFF_UNITS
        if is_in_unit and name == "source" and self._source:
            self.collected(at)
            self.closed(self._source, at)
        elif is_in_unit and name == "seg-source" and self._last:
            self.closed(self._last, at)
        elif is_in_unit and name == "target" and self._target:
            self.closed(self._target, at)
        elif name in XLIFF_UNITS and self._source and self._last:
            self._end_unit(self._source, self._last)

    def _end_unit(self, source: _Element, last: _Element) -> None:
        text, target = self.file.content.text, self._target
        if not text[source.inner : source.end].strip():
            return
        if target is None:
            name = self.tag_name(source.start).replace("source", "target")
            place = (last.after, last.after)
            before, after = f"{self.space_before(source.start)}<{name}>", f"</{name}>"
        elif text[target.inner : target.end].strip():
            return
        elif text[target.start : target.inner].endswith("/>"):
            tag, name = text[target.start : target.inner - 2].rstrip(), self.tag_name(target.start)
            place, before, after = (target.start, target.inner), f"{tag}>", f"</{name}>"
        else:
            place, before, after = (target.inner, target.end), "", ""
        self.file.add(_Unit(source, self._found, place, before, after))


class _TmxReader(_Reader):
    """Finds units without the target language."""

    def __init__(self, file: BilingualFile, source: str | None, target: str) -> None:
        super().__init__(file)
        self._from, self._to = source, target
        self._source: tuple[_Element, EditableText] | None = None
        self._variant: _Element | None = None
        self._language = ""
        self._is_done = False

    def began(self, name: str, attributes: Attributes, at: int) -> None:
        """Take note of a unit, of a variant, or of its segment."""
        if name == "header" and self._from is None:
            declared = attributes.get("srclang", "")
            self._from = None if declared.startswith("*") else declared or None
        elif name == "tu":
            self._source, self._variant, self._is_done = None, None, False
        elif name == "tuv":
            self._variant = self.opened(at)
            self._language = attributes.get(XML_LANG) or attributes.get("lang", "")
            self._is_done = self._is_done or _fits(self._to, self._language)
        elif name == "seg" and self._source is None and self._is_source():
            self._source = (self.opened(at), self.collect())

    def ended(self, name: str, at: int) -> None:
        """Take note of the end of a unit, of a variant, or of its segment."""
        if name == "seg" and self._source and self._source[0].end < 0:
            self.collected(at)
            self.closed(self._source[0], at)
        elif name == "tuv" and self._variant:
            self.closed(self._variant, at)
        elif name == "tu" and self._source and self._variant and not self._is_done:
            source, found = self._source
            names = [self.tag_name(at) for at in (self._variant.start, source.start)]
            tuv, seg = names
            language = quoteattr(self._to)
            space, place = self.space_before(self._variant.start), self._variant.after
            before, after = f"{space}<{tuv} xml:lang={language}><{seg}>", f"</{seg}></{tuv}>"
            self.file.add(_Unit(source, found, (place, place), before, after))

    def _is_source(self) -> bool:
        return self._from is None or _fits(self._from, self._language)


def _fits(wanted: str, found: str) -> bool:
    """Whether a language is the wanted one, or its variety in a region: en-US is en."""
    wanted, found = (one.casefold().replace("_", "-") for one in (wanted, found))
    return found == wanted or found.startswith(f"{wanted}-") or wanted.startswith(f"{found}-")
