"""Formats of files that can be translated, by the endings of their names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Protocol

from transduce.errors import InputError, did_you_mean
from transduce.translation.documents.formats.bilingual import parse_tmx, parse_xliff
from transduce.translation.documents.formats.html_text import parse_html, parse_xhtml
from transduce.translation.documents.formats.json_strings import parse_json_strings
from transduce.translation.documents.formats.markdown_text import parse_markdown
from transduce.translation.documents.formats.office import (
    parse_docx,
    parse_epub,
    parse_odt,
    parse_pptx,
)
from transduce.translation.documents.formats.plain_text import parse_srt, parse_text, parse_vtt
from transduce.translation.documents.formats.po import parse_po
from transduce.translation.documents.formats.yaml_strings import parse_yaml_strings
from transduce.translation.documents.limits import MAX_FILE_BYTES, check_size
from transduce.translation.documents.segments import PlacedText, Segment


class ParsedFile(Protocol):
    """A file whose text was found."""

    @property
    def segments(self) -> Sequence[Segment]:
        """The text to translate, in order."""

    def written(self, placed: Sequence[PlacedText | None]) -> bytes:
        """Return the file with a translation for each segment."""


@dataclass(frozen=True)
class FileFormat:
    """A format, and how it is read."""

    name: str
    media_type: str
    parse: Callable[[bytes, str], ParsedFile]
    has_placeholders: bool = False  # its texts are messages of programs, with fields such as %s


_OPEN_XML = "application/vnd.openxmlformats-officedocument"
_TEXT = FileFormat("plain text", "text/plain", parse_text)
_MARKDOWN = FileFormat("Markdown", "text/markdown", parse_markdown)
_HTML = FileFormat("HTML", "text/html", parse_html)
_XHTML = FileFormat("XHTML", "application/xhtml+xml", parse_xhtml)
_PO = FileFormat("PO", "text/x-gettext-translation", parse_po, has_placeholders=True)
_XLIFF = FileFormat("XLIFF", "application/xliff+xml", parse_xliff, has_placeholders=True)
_YAML = FileFormat("YAML", "application/yaml", parse_yaml_strings, has_placeholders=True)
_JSON = FileFormat("JSON", "application/json", parse_json_strings, has_placeholders=True)
FILE_FORMATS = {
    ".txt": _TEXT,
    ".md": _MARKDOWN,
    ".markdown": _MARKDOWN,
    ".html": _HTML,
    ".htm": _HTML,
    ".xhtml": _XHTML,
    ".srt": FileFormat("SubRip", "application/x-subrip", parse_srt),
    ".vtt": FileFormat("WebVTT", "text/vtt", parse_vtt),
    ".po": _PO,
    ".pot": _PO,
    ".xlf": _XLIFF,
    ".xliff": _XLIFF,
    ".tmx": FileFormat(
        "TMX", "application/x-tmx+xml", partial(parse_tmx, source=None, target=None)
    ),
    ".json": _JSON,
    ".yaml": _YAML,
    ".yml": _YAML,
    ".docx": FileFormat("DOCX", f"{_OPEN_XML}.wordprocessingml.document", parse_docx),
    ".odt": FileFormat("ODT", "application/vnd.oasis.opendocument.text", parse_odt),
    ".pptx": FileFormat("PPTX", f"{_OPEN_XML}.presentationml.presentation", parse_pptx),
    ".epub": FileFormat("EPUB", "application/epub+zip", parse_epub),
}
"""The formats, by the ending of a file's name."""
WITH_MACROS = frozenset({".docm", ".dotm", ".pptm", ".potm", ".ppsm"})


def file_format(name: str) -> FileFormat:
    """Return the format of a file, by its name."""
    suffix = PurePath(name).suffix.lower()
    if suffix in WITH_MACROS:
        raise InputError(
            f"{name} may have macros, which are refused for safety: save it as {suffix[:-1]}x"
        )
    if suffix not in FILE_FORMATS:
        known = " ".join(FILE_FORMATS)
        meant = did_you_mean(suffix, FILE_FORMATS)
        raise InputError(
            f"{name}: files with the ending {suffix!r} are not translated{meant}; known are {known}"
        )
    return FILE_FORMATS[suffix]


def parse_file(
    content: bytes, name: str, *, source: str | None = None, target: str | None = None
) -> ParsedFile:
    """Find the text of a file.

    name: of the file; its ending says which format it has.
    source, target: codes of the languages, which TMX needs.

    What cannot be read, or is too large, raises `InputError`.
    """
    check_size(len(content), MAX_FILE_BYTES, name)
    parse = file_format(name).parse
    if isinstance(parse, partial) and parse.func is parse_tmx:
        parse = partial(parse_tmx, source=source, target=target)
    return parse(content, name)
