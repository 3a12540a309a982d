"""DOCX, PPTX, ODT and EPUB: the members of an archive that have text, edited in place."""

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from transduce.errors import InputError
from transduce.translation.documents.archives import Archive
from transduce.translation.documents.collector import MarkupRules, SegmentCollector
from transduce.translation.documents.edits import EditableText
from transduce.translation.documents.encodings import decode
from transduce.translation.documents.formats.html_text import parse_xhtml
from transduce.translation.documents.limits import MAX_DECODED_BYTES, check_size, decoded_bytes
from transduce.translation.documents.segments import PlacedText, Segment, SegmentCount
from transduce.translation.documents.xml_scanner import Attributes, scan_xml

Parse = Callable[[bytes, str], EditableText]

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main "
A = "http://schemas.openxmlformats.org/drawingml/2006/main "
STRICT = {  # namespaces of ISO 29500 Strict
    W: "http://purl.oclc.org/ooxml/wordprocessingml/main ",
    A: "http://purl.oclc.org/ooxml/drawingml/main ",
}
TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0 "
OFFICE = "urn:oasis:names:tc:opendocument:xmlns:office:1.0 "
NCX = "http://www.daisy.org/z3986/2005/ncx/ "

WORD_PARTS = re.compile(
    r"wordprocessingml\.(document\.main|header|footer|footnotes|endnotes|comments|"
    r"template\.main)\+xml$"
)
SLIDE_PARTS = re.compile(
    r"(presentationml\.(slide|notesSlide)|drawingml\.diagramData|diagramDrawing)\+xml$"
)


def _names(namespace: str, names: str) -> frozenset[str]:
    found = {namespace + name for name in names.split()}
    strict = STRICT.get(namespace)
    return frozenset(found | {strict + name for name in names.split()} if strict else found)


def _word_rules(namespace: str) -> MarkupRules:
    return MarkupRules(
        blocks=_names(W, "p") | _names(A, "p"),
        directly_in=_names(W, "t") | _names(A, "t"),
        breaks=_names(W, "br cr tab ptab") | _names(A, "br"),
        fields=_names(W, "fldSimple") | _names(A, "fld"),
        field_mark=f"{namespace}fldChar",
        interrupts=True,
        run=f"{namespace}r",
        format_of_run=f"{namespace}rPr",
        hyphens=_names(W, "noBreakHyphen"),
        transparent=_names(
            W,
            "t proofErr bookmarkStart bookmarkEnd lastRenderedPageBreak noBreakHyphen noProof "
            "permStart permEnd softHyphen",
        ),
        paired=_names(
            W,
            "commentRangeStart commentRangeEnd moveFromRangeStart moveFromRangeEnd "
            "moveToRangeStart moveToRangeEnd",
        ),
        needs_space_attribute=True,
    )


def _slide_rules(namespace: str) -> MarkupRules:
    return MarkupRules(
        blocks=_names(A, "p"),
        directly_in=_names(A, "t"),
        breaks=_names(A, "br tab"),
        fields=_names(A, "fld"),
        interrupts=True,
        run=f"{namespace}r",
        format_of_run=f"{namespace}rPr",
        transparent=_names(A, "t"),
    )


OPEN_DOCUMENT_RULES = MarkupRules(
    blocks=_names(TEXT, "p h"),
    within=_names(TEXT, "p h"),
    breaks=_names(TEXT, "tab line-break"),
    skipped=_names(TEXT, "note-citation bibliography-mark tracked-changes ruby-text")
    | _names(OFFICE, "binary-data")
    | {"http://purl.org/dc/elements/1.1/ creator", "http://purl.org/dc/elements/1.1/ date"},
    spaces=_names(TEXT, "s"),
    fields=_names(
        TEXT, "page-number page-count date time sequence chapter bookmark-ref reference-ref"
    ),
    interrupts=True,
    transparent=_names(TEXT, "soft-page-break bookmark bookmark-start bookmark-end"),
    paired=_names(
        TEXT,
        "reference-mark-start reference-mark-end alphabetical-index-mark-start "
        "alphabetical-index-mark-end toc-mark-start toc-mark-end user-index-mark-start "
        "user-index-mark-end change-start change-end",
    )
    | _names(OFFICE, "annotation annotation-end"),
)
NCX_RULES = MarkupRules(blocks=_names(NCX, "text"), within=_names(NCX, "text"))


@dataclass
class ArchiveFile:
    """An archive, and those of its members that have segments."""

    archive: Archive
    members: dict[str, EditableText] = field(default_factory=dict)

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments of all members, in order."""
        return [segment for text in self.members.values() for segment in text.segments]

    def written(self, placed: Sequence[PlacedText | None]) -> bytes:
        """Return the file with other text."""
        rest = iter(placed)
        changed = {}
        for name, text in self.members.items():
            own = [next(rest) for _ in text.segments]
            if any(texts is not None for texts in own):
                changed[name] = text.written(own)
        return self.archive.with_members(changed)


def parse_docx(content: bytes, name: str) -> ArchiveFile:
    """Find the text of a document of Word: body, headers, footers, notes and comments."""
    return _parse_open_xml(content, name, WORD_PARTS, _word_rules)


def parse_pptx(content: bytes, name: str) -> ArchiveFile:
    """Find the text of a presentation: slides, notes and diagrams."""
    return _parse_open_xml(content, name, SLIDE_PARTS, _slide_rules)


def parse_odt(content: bytes, name: str) -> ArchiveFile:
    """Find the text of an OpenDocument text: its content, and the headers in its styles."""
    archive = Archive(content, name)
    members = [member for member in ("content.xml", "styles.xml") if member in archive.names]
    if "content.xml" not in members:
        raise InputError(f"{name} has no content.xml: is it an OpenDocument file?")
    return _parsed(archive, [(member, _xml_parser(OPEN_DOCUMENT_RULES)) for member in members])


def parse_epub(content: bytes, name: str) -> ArchiveFile:
    """Find the text of a book: its XHTML, with the table of contents, and the older NCX."""
    archive = Archive(content, name)
    container = _Elements.of(archive, "META-INF/container.xml", name)
    package = next((at["full-path"] for at in container.with_attribute("full-path")), None)
    if package is None:
        raise InputError(f"{name}: META-INF/container.xml names no package: is it an EPUB?")
    folder, found = posixpath.dirname(package), []
    for item in _Elements.of(archive, package, name).with_attribute("media-type"):
        path = posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))
        if path in archive.names and (parse := BOOK_PARTS.get(item["media-type"])):
            found.append((path, parse))
    return _parsed(archive, list(dict.fromkeys(found)))


def _xml_parser(rules: MarkupRules) -> Parse:
    def parse(content: bytes, name: str) -> EditableText:
        found = EditableText(decode(content, name, is_markup=True))
        collector = SegmentCollector(found, rules)
        scan_xml(found.content.text, collector, name=name)
        collector.flush()
        return found

    return parse


BOOK_PARTS: dict[str, Parse] = {
    "application/xhtml+xml": parse_xhtml,
    "application/x-dtbncx+xml": _xml_parser(NCX_RULES),
}


def _parse_open_xml(
    content: bytes, name: str, parts: re.Pattern[str], rules: Callable[[str], MarkupRules]
) -> ArchiveFile:
    archive = Archive(content, name)
    types = _Elements.of(archive, "[Content_Types].xml", name)
    found = []
    for override in types.with_attribute("ContentType"):
        kind, member = override["ContentType"], override.get("PartName", "").lstrip("/")
        if "macroEnabled" in kind:
            raise InputError(f"{name} has macros, which are refused for safety: save it without")
        if parts.search(kind) and member in archive.names:
            found.append(member)
    if not found:
        raise InputError(f"{name} has no text in it, or is another kind of file than its name says")
    return _parsed(archive, [(member, _open_xml_parser(rules)) for member in dict.fromkeys(found)])


def _open_xml_parser(rules: Callable[[str], MarkupRules]) -> Parse:
    def parse(content: bytes, name: str) -> EditableText:
        own = A if rules is _slide_rules else W
        namespace = STRICT[own] if STRICT[own].strip().encode() in content else own
        return _xml_parser(rules(namespace))(content, name)

    return parse


def _parsed(archive: Archive, members: Sequence[tuple[str, Parse]]) -> ArchiveFile:
    file, size, count = ArchiveFile(archive), 0, SegmentCount(archive.name)
    for member, parse in members:
        found = parse(archive.read(member), f"{archive.name}: {member}")
        size += decoded_bytes(found.content.text)
        check_size(size, MAX_DECODED_BYTES, f"{archive.name}: its text in memory")
        file.members[member] = found
        for segment in file.members[member].segments:
            count.add(segment)
    return file


class _Elements:
    """The attributes of all elements of a small document; a `MarkupHandler`."""

    def __init__(self) -> None:
        self._found: list[Attributes] = []

    @classmethod
    def of(cls, archive: Archive, member: str, name: str) -> "_Elements":
        place = f"{name}: {member}"
        found = cls()
        text = decode(archive.read(member), place, is_markup=True).text
        scan_xml(text, found, name=place)
        return found

    def with_attribute(self, name: str) -> Iterator[Attributes]:
        return (attributes for attributes in self._found if name in attributes)

    def start(self, _name: str, attributes: Attributes, _at: int) -> None:
        if attributes:
            self._found.append(attributes)

    def end(self, _name: str, _at: int) -> None: ...

    def text(self, _text: str, _at: int) -> None: ...

    def other(self, _at: int) -> None: ...
