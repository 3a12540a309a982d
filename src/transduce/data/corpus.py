"""Reading parallel text as a stream: two aligned files, a TSV with two columns, or JSON lines.

Lines end at LF or CR LF only: other characters that might be taken for a line break (U+2028, form
feed, NUL) are part of the text. A byte-order mark at the start is dropped. `count_pairs` reads
everything once before any work starts, so that an error in the last line is found early.
"""

import bz2
import gzip
import json
import lzma
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from io import BufferedIOBase
from pathlib import Path
from typing import NamedTuple

from transduce.errors import InputError
from transduce.files.errors import reporting_read_errors

BLOCK_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 24
PACKED_BYTES = 1 << 10  # read from a .zst at a time: it may decompress to 30,000 times as much


class Pair(NamedTuple):
    """A sentence and its translation."""

    src: str
    tgt: str


@dataclass(frozen=True)
class TwoFiles:
    """Line n of one file is the translation of line n of the other."""

    src: Path
    tgt: Path


@dataclass(frozen=True)
class Tsv:
    """Each line has a sentence, a tab and its translation."""

    path: Path


@dataclass(frozen=True)
class JsonLines:
    """Each line is an object with a sentence and its translation in two named fields."""

    path: Path
    src: str
    tgt: str


Source = TwoFiles | Tsv | JsonLines


def source_of(src: Path, tgt: Path | None = None, *, fields: str = "src,tgt") -> Source:
    """Choose the format of a corpus by its file names."""
    if tgt is not None:
        return TwoFiles(src, tgt)
    packed = src.suffix.lower() in (".gz", ".xz", ".bz2", ".zst")
    kind = Path(src.stem).suffix.lower() if packed else src.suffix.lower()
    if kind == ".tsv":
        return Tsv(src)
    if kind == ".jsonl":
        names = [name.strip() for name in fields.split(",")]
        if len(set(names)) != 2:
            raise InputError(f"fields {fields!r}: give two names with a comma between them")
        return JsonLines(src, src=names[0], tgt=names[1])
    raise InputError(
        f"{src} has no target text: give one, or a .tsv or .jsonl file with both sides"
    )


def text_or_corpus(path: Path, *, fields: str = "src,tgt") -> Path | Source:
    """Take a .tsv or .jsonl, packed or not, as both sides of a corpus; any other file as a text."""
    suffixes = {suffix.lower() for suffix in path.suffixes}
    return source_of(path, fields=fields) if suffixes & {".tsv", ".jsonl"} else path


def count_pairs(source: Path | Source) -> int:
    """Read everything; return the number of pairs, or of lines of a text; raise on an error."""
    paths = [source] if isinstance(source, Path) else vars(source).values()
    for path in paths:
        # Unlike Path's, these functions take a name that cannot be looked up for a missing file.
        if isinstance(path, Path) and os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113
            raise InputError(
                f"{path} is not a regular file; a corpus is read more than once, so give a file"
            )
    if isinstance(source, Path):
        return sum(1 for _ in read_lines(source))
    if isinstance(source, TwoFiles):
        n_src, n_tgt = (sum(1 for _ in read_lines(path)) for path in (source.src, source.tgt))
        if n_src != n_tgt:
            raise InputError(
                f"{source.tgt} has {n_tgt:,} lines but {source.src} has {n_src:,}: "
                "parallel files must match line by line"
            )
        return n_src
    return sum(1 for _ in read_pairs(source))


def read_pairs(source: Source) -> Iterator[Pair]:
    """Stream the pairs of a source."""
    match source:
        case TwoFiles():
            try:
                for texts in zip(read_lines(source.src), read_lines(source.tgt), strict=True):
                    yield Pair(*texts)
            except ValueError:
                count_pairs(source)  # raises an error that says which is longer
                raise
        case Tsv():
            for number, line in enumerate(read_lines(source.path), start=1):
                yield _split_columns(line, f"{source.path} line {number:,}")
        case JsonLines():
            for number, line in enumerate(read_lines(source.path), start=1):
                yield _pick_fields(line, source, f"{source.path} line {number:,}")


def read_lines(path: Path) -> Iterator[str]:
    """Stream the lines of a plain or compressed file, without line breaks."""
    lines_before = 0
    for block in _blocks(path):
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
        yield from (line.removesuffix("\r") for line in lines)
    if lines_before == 0:
        raise InputError(f"{path} is empty")


def read_sentences(held: Path | Source) -> Iterator[str]:
    """Stream the sentences of a text, or of both sides of a corpus."""
    if isinstance(held, Path):
        yield from read_lines(held)
    elif isinstance(held, TwoFiles):
        yield from read_lines(held.src)
        yield from read_lines(held.tgt)
    else:
        yield from (text for pair in read_pairs(held) for text in pair)


def _blocks(path: Path) -> Iterator[bytes]:
    """Stream whole lines, about a megabyte at a time."""
    rest = b""
    with reporting_read_errors(path):
        try:
            with _opened(path) as stream:
                while chunk := stream.read(BLOCK_BYTES):
                    rest += chunk
                    end = rest.rfind(b"\n") + 1
                    if end:
                        yield rest[:end]
                        rest = rest[end:]
                    elif len(rest) > MAX_LINE_BYTES:
                        raise InputError(
                            f"{path} has a line of over {MAX_LINE_BYTES:,} bytes: is it text?"
                        )
        except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as damaged:
            raise InputError(f"{path} is damaged or truncated: {damaged}") from damaged
    if rest:
        yield rest


def _opened(path: Path) -> BufferedIOBase:
    match path.suffix.lower():
        case ".gz":
            return gzip.open(path)
        case ".xz":
            return lzma.open(path)
        case ".bz2":
            return bz2.open(path)
        case ".zst":
            return _ZstandardFile(path)
        case _:
            return path.open("rb")


class _ZstandardFile(BufferedIOBase):
    """Reads a .zst file; the library's own reader does not notice if one is truncated."""

    def __init__(self, path: Path) -> None:
        try:
            self._library = import_module("zstandard")
        except ImportError:
            raise InputError(f"{path}: install the package zstandard to read .zst") from None
        self._packed = path.open("rb")
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

    def close(self) -> None:
        """Close the file."""
        self._packed.close()
        super().close()


def _not_utf_8(path: Path, block: bytes, position: int, lines_before: int) -> InputError:
    line = lines_before + block.count(b"\n", 0, position) + 1
    byte = position - block.rfind(b"\n", 0, position)
    return InputError(f"{path} line {line:,} byte {byte:,}: not UTF-8; convert the file to UTF-8")


def _split_columns(line: str, place: str) -> Pair:
    columns = line.split("\t")
    if len(columns) != 2:
        raise InputError(f"{place}: {len(columns)} columns instead of two, separated by a tab")
    return Pair(*columns)


def _pick_fields(line: str, source: JsonLines, place: str) -> Pair:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as malformed:
        raise InputError(f"{place}: not JSON: {malformed}") from malformed
    if not isinstance(entry, dict):
        raise InputError(f"{place}: not an object with fields")
    for name in (source.src, source.tgt):
        text = entry.get(name)
        if not isinstance(text, str):
            raise InputError(f"{place}: no text in field {name!r}; the fields are {list(entry)}")
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise InputError(f"{place}: field {name!r} has half of a surrogate pair")
    return Pair(entry[source.src], entry[source.tgt])
