"""Lines of plain and compressed files, read as a stream.

Lines end at LF or CR LF only: other characters that might be taken for a line break (U+2028, form
feed, NUL) are part of the text. A byte-order mark at the start is dropped.
"""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from io import BufferedIOBase
from pathlib import Path
from typing import IO, BinaryIO

from transduce.data.formats.broken import how_to_convert
from transduce.errors import InputError, how_to_install
from transduce.files.errors import reporting_read_errors
from transduce.files.read_ahead import read_ahead
from transduce.files.unchanged import compared_in_threads, opened_unchanged

BLOCK_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 24
PACKED_BYTES = 1 << 10  # read from a .zst at a time: it may decompress to 30,000 times as much
COMPRESSED = (".gz", ".xz", ".bz2", ".zst")


def read_lines(path: Path) -> Iterator[str]:
    """Stream the lines of a plain or compressed file, without line breaks."""
    for lines in read_line_blocks(path):
        yield from (line.removesuffix("\r") for line in lines)


def read_line_blocks(path: Path) -> Iterator[list[str]]:
    """Stream the lines of a plain or compressed file, many at a time, cut at LF only."""
    lines_before = 0
    for block in _whole_lines(path):
        try:
            text = block.decode()
        except UnicodeDecodeError as undecodable:
            raise _not_utf_8(path, block, undecodable.start, lines_before) from undecodable
        if lines_before == 0:
            text = text.removeprefix("\ufeff")
        lines = text.split("\n")
        if not lines[-1]:  # after the last line break
            lines.pop()
        lines_before += len(lines)
        yield lines
    if lines_before == 0:
        raise InputError(f"{path} is empty")


def read_blocks(path: Path) -> Iterator[bytes]:
    """Stream the content of a plain or compressed file, about a megabyte at a time."""
    with reporting_read_errors(path):
        try:
            with opened_unchanged(path) as file, _decompressed(path, file) as stream:
                while block := stream.read(BLOCK_BYTES):
                    yield block
        except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as damaged:
            raise InputError(f"{path} is damaged or truncated: {damaged}") from damaged


def _whole_lines(path: Path) -> Iterator[bytes]:
    """Stream blocks that end where a line ends."""
    rest = b""
    blocks = read_blocks(path)
    if path.suffix.lower() in COMPRESSED:
        blocks = read_ahead(compared_in_threads(blocks))
    for block in blocks:
        rest += block
        end = rest.rfind(b"\n") + 1
        if end:
            yield rest[:end]
            rest = rest[end:]
        elif len(rest) > MAX_LINE_BYTES:
            raise InputError(f"{path} has a line of over {MAX_LINE_BYTES:,} bytes: is it text?")
    if rest:
        yield rest


def _decompressed(path: Path, file: BinaryIO) -> AbstractContextManager[IO[bytes] | BufferedIOBase]:
    match path.suffix.lower():
        case ".gz":
            return gzip.GzipFile(fileobj=file)
        case ".xz":
            return lzma.LZMAFile(file)
        case ".bz2":
            return bz2.BZ2File(file)
        case ".zst":
            return _ZstandardFile(path, file)
        case _:
            return nullcontext(file)


class _ZstandardFile(BufferedIOBase):
    """Reads a .zst file; the library's own reader does not notice if one is truncated."""

    def __init__(self, path: Path, packed: BinaryIO) -> None:
        try:
            self._library = import_module("zstandard")
        except ImportError:
            install = how_to_install("zstd")
            raise InputError(f"{path}: reading .zst needs zstandard: {install}") from None
        self._packed = packed
        self._frame = self._library.ZstdDecompressor().decompressobj()
        self._ended = True  # between frames

    def read(self, _size: int | None = -1) -> bytes:
        """Return some bytes, or none at the end of the file."""
        text = b""
        while not text:
            packed = self._packed.read(PACKED_BYTES)
            if not packed:
                if not self._ended:
                    raise EOFError("the last frame has no end")
                return b""
            while packed:
                if self._ended:
                    self._frame = self._library.ZstdDecompressor().decompressobj()
                try:
                    text += self._frame.decompress(packed)
                except self._library.ZstdError as damaged:
                    raise EOFError(str(damaged)) from damaged
                packed, self._ended = self._frame.unused_data, self._frame.eof
        return text


def _not_utf_8(path: Path, block: bytes, position: int, lines_before: int) -> InputError:
    line = lines_before + block.count(b"\n", 0, position) + 1
    byte = position - block.rfind(b"\n", 0, position)
    cure = _cure(path, block)
    return InputError(f"{path} line {line:,} byte {byte:,}: not UTF-8; {cure}")


def _cure(path: Path, block: bytes) -> str:
    is_packed = path.suffix.lower() in COMPRESSED
    plain = path.with_suffix("") if is_packed else path
    return ("decompress it; " if is_packed else "") + how_to_convert(plain, block)
