"""Bytes to text and back, exactly: the byte-order mark and the encoding of a file are kept."""

import codecs
import re
from dataclasses import dataclass
from pathlib import Path

from transduce.data.formats.broken import how_to_convert
from transduce.errors import InputError
from transduce.translation.documents.limits import MAX_TEXT_BYTES, check_size

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


def decode(content: bytes, name: str, *, is_markup: bool = False) -> DecodedText:
    """Decode a file by its byte-order mark or, in markup, its declaration; else as UTF-8."""
    check_size(len(content), MAX_TEXT_BYTES, name)
    mark, codec = next(
        ((mark, codec) for mark, codec in _MARKS if content.startswith(mark)), (b"", "")
    )
    codec = codec or (_declared(content, name) if is_markup else "utf-8")
    try:
        return DecodedText(content[len(mark) :].decode(codec), name, codec, mark)
    except UnicodeDecodeError as fault:
        if codec != "utf-8":
            raise InputError(f"{name} is not {codec}, as it says: {fault.reason}") from fault
        cure = how_to_convert(Path(name), content)
        raise InputError(f"{name} byte {fault.start + 1:,}: not UTF-8; {cure}") from fault


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
