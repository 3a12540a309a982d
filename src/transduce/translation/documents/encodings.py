"""Bytes to text and back, exactly: the byte-order mark and the encoding of a file are kept."""

import codecs
import re
from dataclasses import dataclass
from pathlib import Path

from transduce.data.formats.broken import how_to_convert
from transduce.errors import InputError
from transduce.translation.documents.limits import (
    MAX_DECODED_BYTES,
    MAX_TEXT_BYTES,
    check_size,
    decoded_bytes,
)

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARED = (
    re.compile(rb"""<\?xml[^>]{0,200}?\sencoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']"""),
    re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9._-]{1,40})""", re.I),
)
_SEARCHED_BYTES = 1_024
_CODECS = re.compile(
    r"utf-8|ascii|iso8859-\d+|cp125\d|cp866|koi8-[ru]|euc_\w+|shift_jis|gb\w+|big5"
)
"""Encodings that a declaration may name: those that are a superset of ASCII."""
_MEANT = {"ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254"}
"""What the HTML standard reads instead of an encoding; it has characters at 0x80 to 0x9f."""


@dataclass(frozen=True)
class DecodedText:
    """A text, and how it was written."""

    text: str
    name: str  # of the file, for messages
    codec: str = "utf-8"
    mark: bytes = b""  # byte-order mark

    def encoded(self, text: str) -> bytes:
        """Return another text, written the same way; what it cannot express is a reference."""
        return self.mark + text.encode(self.codec, "xmlcharrefreplace")


def decode(
    content: bytes, name: str, *, is_markup: bool = False, is_html: bool = False
) -> DecodedText:
    """Decode a file by its byte-order mark or, in markup, its declaration; else as UTF-8.

    is_html: read declarations as browsers do, to whom ISO 8859-1 is windows-1252.
    """
    check_size(len(content), MAX_TEXT_BYTES, name)
    mark, codec = next(
        ((mark, codec) for mark, codec in _MARKS if content.startswith(mark)), (b"", "")
    )
    codec = codec or (_declared(content, name) if is_markup or is_html else "utf-8")
    if is_html:
        codec = _as_browsers_read(content, codec)
    try:
        text = content[len(mark) :].decode(codec)
    except UnicodeDecodeError as fault:
        if codec != "utf-8":
            raise InputError(f"{name} is not {codec}, as it says: {fault.reason}") from fault
        cure = how_to_convert(Path(name), content)
        raise InputError(f"{name} byte {fault.start + 1:,}: not UTF-8; {cure}") from fault
    check_size(decoded_bytes(text), MAX_DECODED_BYTES, f"{name} in memory")
    return DecodedText(text, name, codec, mark)


def _declared(content: bytes, name: str) -> str:
    found = (pattern.search(content[:_SEARCHED_BYTES]) for pattern in _DECLARED)
    declared = next((match[1].decode() for match in found if match), "utf-8")
    try:
        codec = codecs.lookup(declared).name
    except LookupError:
        codec = declared
    if not _CODECS.fullmatch(codec):
        raise InputError(f"{name} is in the encoding {declared!r}: convert it to UTF-8")
    return codec


def _as_browsers_read(content: bytes, codec: str) -> str:
    """Return the encoding that is meant, unless some bytes are no character in it."""
    meant = _MEANT.get(codec)
    try:
        return meant if meant and content.decode(meant) else codec
    except UnicodeDecodeError:
        return codec
