"""PO files of gettext: missing and fuzzy translations are filled in, everything else stays."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from transduce.data.formats.po import FUZZY, KEYWORD, unescaped
from transduce.errors import InputError
from transduce.translation.documents.edits import Edit, edited
from transduce.translation.documents.encodings import DecodedText, decode
from transduce.translation.documents.segments import PlacedText, Segment, SegmentCount, SegmentPart

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


@dataclass
class _Field:
    """A keyword and its string, which may go over several lines."""

    start: int
    end: int  # after its last line
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What the string says."""
        return "".join(self.pieces)


@dataclass
class _Entry:
    """A message and where its parts are."""

    start: int
    end: int = 0
    fields: dict[str, _Field] = field(default_factory=dict)
    flags: list[tuple[int, int]] = field(default_factory=list)  # lines of flags
    previous: list[tuple[int, int]] = field(default_factory=list)  # lines that begin with #|
    is_fuzzy: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it has no translation that counts."""
        filled = [one.text for key, one in self.fields.items() if key.startswith("msgstr")]
        return self.is_fuzzy or not all(filled)


@dataclass
class PoFile:
    """A PO file; each line of a message that is not translated is a segment."""

    content: DecodedText
    entries: list[_Entry]
    segments: list[Segment] = field(default_factory=list)
    sources: list[tuple[_Entry, str, list[str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._count = SegmentCount(self.content.name)

    def add(self, entry: _Entry, source: str) -> None:
        """Add the lines of a message, or of its plural."""
        lines = re.split(r"(\n)", entry.fields[source].text)
        self.sources.append((entry, source, lines))
        for line in lines[::2]:
            self.segments.append(Segment((SegmentPart(line),)))
            self._count.add(self.segments[-1])

    def written(self, placed: Sequence[PlacedText | None]) -> bytes:
        """Return the file with translations in it."""
        rest = iter(placed)
        translated: dict[int, dict[str, str]] = {}
        for entry, source, lines in self.sources:
            new = list(lines)
            for number in range(0, len(lines), 2):
                one = next(rest)
                new[number] = lines[number] if one is None else one.texts[0]
            translated.setdefault(id(entry), {})[source] = "".join(new)
        edits = [
            edit
            for entry in self.entries
            if id(entry) in translated
            for edit in _fill(entry, translated[id(entry)], self.content.text)
        ]
        return self.content.encoded(edited(self.content, edits))


def parse_po(content: bytes, name: str) -> PoFile:
    """Find the messages that have no translation, or a fuzzy one."""
    decoded = decode(content, name)
    file = PoFile(decoded, list(_entries(decoded.text, name)))
    for entry in file.entries:
        if not entry.fields["msgid"].text or not entry.is_open:  # the header, or done
            continue
        file.add(entry, "msgid")
        if "msgid_plural" in entry.fields:
            file.add(entry, "msgid_plural")
    return file


def _fill(entry: _Entry, translated: dict[str, str], text: str) -> Iterator[Edit]:
    """Write the translation of a message; it is not fuzzy any more."""
    plural = translated.get("msgid_plural")
    forms = [key for key in entry.fields if key.startswith("msgstr")]
    for key in forms:
        is_singular = plural is None or (key == "msgstr[0]" and len(forms) > 1)
        new = translated["msgid"] if is_singular else plural
        place = entry.fields[key]
        if new is None or (place.text and not entry.is_fuzzy):
            continue
        end_of_line = "\r\n" if text[place.start : place.end].endswith("\r\n") else "\n"
        is_last = not text[place.start : place.end].endswith("\n")
        written = _field_text(key, new, end_of_line)
        yield Edit(
            place.start, place.end, written.removesuffix(end_of_line) if is_last else written
        )
    if not entry.is_fuzzy:
        return
    for start, end in entry.flags:
        kept = FUZZY.sub("", text[start:end])
        yield Edit(start, end, "" if kept.strip() in ("#", "#,") else kept)
    for start, end in entry.previous:
        yield Edit(start, end, "")


def _field_text(key: str, text: str, end_of_line: str) -> str:
    """Write a keyword with its string, one line of it a line."""
    lines = text.splitlines(keepends=True) if "\n" in text.rstrip("\n") else [text]
    quoted = ['"' + "".join(_ESCAPES.get(c, c) for c in line) + '"' for line in lines]
    if len(quoted) > 1:
        quoted.insert(0, '""')
    return "".join(
        f"{'' if number else key + ' '}{one}{end_of_line}" for number, one in enumerate(quoted)
    )


def _entries(text: str, name: str) -> Iterator[_Entry]:
    entry, key, number = _Entry(0), "", 0
    for number, line in enumerate(_LINE.finditer(text), start=1):
        content = line[0].strip()
        is_comment = not content or content.startswith("#")
        match = None if is_comment else KEYWORD.fullmatch(line[0].rstrip("\r\n"))
        if _begins_next(entry, match):
            yield _checked(entry, name, number)
            entry = _Entry(line.start())
        if is_comment:
            key = ""
            _note_comment(entry, content, line.span())
            continue
        if match is None or not (match["key"] or key):
            raise InputError(f"{name} line {number:,}: not PO: a keyword and a string in quotes")
        key = match["key"] or key
        if match["key"] and key in entry.fields:
            raise InputError(f"{name} line {number:,}: not PO: two {key} in one message")
        place = entry.fields.setdefault(key, _Field(line.start(), line.end()))
        place.pieces.append(unescaped(match["text"]))
        place.end = line.end()
    if entry.fields:
        yield _checked(entry, name, number)


def _begins_next(entry: _Entry, match: re.Match[str] | None) -> bool:
    """Whether the next message begins: with a comment, a blank line, or its first keyword."""
    if match is None:
        return bool(entry.fields)
    return match["key"] in ("msgctxt", "msgid") and "msgid" in entry.fields


def _note_comment(entry: _Entry, content: str, span: tuple[int, int]) -> None:
    if content.startswith("#,") and FUZZY.search(content):
        entry.flags.append(span)
        entry.is_fuzzy = True
    elif content.startswith("#|"):
        entry.previous.append(span)


def _checked(entry: _Entry, name: str, number: int) -> _Entry:
    if "msgid" not in entry.fields or not any(key.startswith("msgstr") for key in entry.fields):
        raise InputError(
            f"{name}, before line {number:,}: not PO: a message without msgid or msgstr"
        )
    return entry
