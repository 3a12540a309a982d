"""`transduce translate --format`: a document in HTML or XML, translated, with the same markup."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import typer

from transduce.data.corpus import STANDARD_INPUT, format_of
from transduce.errors import InputError, counted
from transduce.files.errors import reporting_read_errors
from transduce.text.markup.document import MarkupDocument, read_markup

if TYPE_CHECKING:
    from transduce.translation.options import Options
    from transduce.translation.translator import Translator

FORMATS = ("text", "html", "xml")
MAX_BYTES = 80_000_000
SHOWN = 3
"""Notes that are written in full."""

_DECLARED = re.compile(rb"""<\?xml[^>]{0,200}?\sencoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")


@dataclass(frozen=True)
class SourceDocument:
    """A document to translate."""

    source: str
    document: MarkupDocument


def read_document(
    name: str, files: Sequence[Path], only_text: Mapping[str, object]
) -> SourceDocument | None:
    """Read a document of a format, line ends as they are; None if the format is text.

    Of files that are read as lines of text, those are named that could be read as documents.

    only_text: options that suit no document, with the values that were given.
    """
    if name not in FORMATS:
        raise InputError(f"--format {name}: use one of {', '.join(FORMATS)}")
    if name == "text":
        _advise_on_documents(files)
        return None
    for option, value in only_text.items():
        if value is not None:
            raise InputError(f"{option} is for text: leave it out with --format {name}")
    if len(files) > 1:
        raise InputError(f"--format {name} translates one document: give one file at a time")
    source = _read(files[0])
    place = "" if files[0] == STANDARD_INPUT else f"{files[0]}: "
    try:
        return SourceDocument(source, read_markup(source, "xml" if name == "xml" else "html"))
    except InputError as fault:
        raise InputError(f"{place}{fault}") from fault


def _advise_on_documents(files: Sequence[Path]) -> None:
    """Say which files are read as lines although they have a format that can be kept."""
    from transduce.translation.documents.registry import FILE_FORMATS

    for path in files:
        known = FILE_FORMATS.get(path.suffix.lower())
        if known and path.suffix.lower() != ".txt" and format_of(path) == "text":
            typer.echo(
                f"{path} is read as lines of plain text; 'transduce translate-file' translates it "
                f"as {known.name}",
                err=True,
            )


def translate_markup(
    translator: "Translator", given: SourceDocument, options: "Options", *, window: int | None
) -> bytes:
    """Translate a document; write to standard error what was unusual about its texts."""
    from transduce.translation.markup.documents import translated_document

    lines, notes = [], 0
    stream = translator.stream(given.document.lines, options, window=window)
    for number, line in enumerate(stream, start=1):
        lines.append(line)
        notes += bool(line.note)
        if line.note and notes <= SHOWN:
            sys.stderr.write(f"text {number:,}: {line.note}\n")
    if notes > SHOWN:
        sys.stderr.write(f"{counted(notes - SHOWN, 'more note')} like these\n")
    return translated_document(given.source, given.document, lines).text.encode()


def _read(path: Path) -> str:
    if path != STANDARD_INPUT:
        with reporting_read_errors(path), path.open("rb") as stream:
            return _decoded(stream, str(path))
    if sys.stdin is None:
        raise InputError("standard input is closed: name a file")
    return _decoded(sys.stdin.buffer, "standard input")


def _decoded(stream: BinaryIO, name: str) -> str:
    content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise InputError(f"{name} has over {MAX_BYTES:,} bytes: divide it")
    declared = _DECLARED.match(content)
    if declared is not None and declared[1].lower() not in (b"utf-8", b"utf8", b"us-ascii"):
        raise InputError(
            f"{name} declares the encoding {declared[1].decode()}: convert it to UTF-8"
        )
    try:
        return content.decode()
    except UnicodeDecodeError as undecodable:
        raise InputError(
            f"{name} byte {undecodable.start + 1:,}: not UTF-8; convert it"
        ) from undecodable
