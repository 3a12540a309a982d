"""Reading parallel text as a stream, whatever its format.

It comes as two aligned files, or as one file with both sides: TSV, CSV, JSON lines, TMX, PO, XLIFF
or trees in Penn brackets, each plain or compressed. `fields` names the two columns, fields or
languages of such a file. PO and XLIFF say themselves what is the source and what the target; of a
treebank the words are the source, and the trees the target.
`count_pairs` reads everything once before any work starts, so that an error in the last line is
found early.
"""

import logging
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from transduce.data.formats.broken import BrokenRecord
from transduce.data.formats.json_lines import read_fields
from transduce.data.formats.lines import COMPRESSED, read_line_blocks
from transduce.data.formats.lines import read_lines as read_lines  # part of this module too
from transduce.data.formats.po import read_messages
from transduce.data.formats.tables import header_read_as_text, lacks_names, read_columns
from transduce.data.formats.tmx import read_segments
from transduce.data.formats.trees import read_trees
from transduce.data.formats.xliff import read_units
from transduce.errors import InputError, counted
from transduce.files.in_threads import stoppable
from transduce.files.unchanged import ChangedFileError

DEFAULT_FIELDS = "src,tgt"
STANDARD_INPUT = Path("-")
"""How a command names standard input; a corpus must be a file."""

SideName = Literal["src", "tgt"]
SIDES: tuple[SideName, ...] = ("src", "tgt")

Format = Literal["text", "tsv", "csv", "jsonl", "tmx", "po", "xliff", "trees"]
FORMATS: dict[str, Format] = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".tmx": "tmx",
    ".po": "po",
    ".xlf": "xliff",
    ".xliff": "xliff",
    ".mrg": "trees",
    ".ptb": "trees",
}
"""The formats of files with both sides, by their suffix."""


_log = logging.getLogger("transduce")

MOST_BROKEN = 1 / 20
"""The share of records that may be broken: then they are dropped, else the file is another one."""


FEW_TREES = 100
"""After this many trees, a treebank of which too many are broken is not read to its end."""


class Pair(NamedTuple):
    """A sentence and its translation."""

    src: str
    tgt: str


class BrokenPair(Pair):
    """Stands for a record that cannot be read: `src` says where and why, `tgt` shows it."""


@dataclass(frozen=True)
class TwoFiles:
    """Line n of one file is the translation of line n of the other."""

    src: Path
    tgt: Path


@dataclass(frozen=True)
class TwoSides:
    """The source side of one file and the target side of another, of any format."""

    src: Path
    tgt: Path
    fields: str


@dataclass(frozen=True)
class Tsv:
    """Each line has a sentence, a tab and its translation; or more columns, and two are named."""

    path: Path
    src: str = "src"
    tgt: str = "tgt"


@dataclass(frozen=True)
class Csv:
    """A table with commas and quotes; a sentence and its translation are two of its columns."""

    path: Path
    src: str = "src"
    tgt: str = "tgt"


@dataclass(frozen=True)
class JsonLines:
    """Each line is an object with a sentence and its translation in two named fields."""

    path: Path
    src: str
    tgt: str


@dataclass(frozen=True)
class Tmx:
    """A translation memory with units in two languages, and perhaps in others."""

    path: Path
    src: str
    tgt: str


@dataclass(frozen=True)
class Po:
    """Messages of a program with their translations, as gettext has them."""

    path: Path


@dataclass(frozen=True)
class Xliff:
    """Units with a source and a target."""

    path: Path


@dataclass(frozen=True)
class Trees:
    """A treebank in Penn brackets: the words of a tree are the source, the tree is the target."""

    path: Path


OneFile = Tsv | Csv | JsonLines | Tmx | Po | Xliff | Trees
Source = TwoFiles | TwoSides | OneFile

_SOURCES: dict[Format, type[Tsv | Csv | JsonLines | Tmx]] = {
    "tsv": Tsv,
    "csv": Csv,
    "jsonl": JsonLines,
    "tmx": Tmx,
}
_WITHOUT_FIELDS: dict[Format, type[Po | Xliff | Trees]] = {
    "po": Po,
    "xliff": Xliff,
    "trees": Trees,
}
"""Formats that say themselves what is the source and what the target."""
_LINE_BREAK = re.compile(r"\r\n|[\r\n]")
_FORMAT_OF_SOURCE = {source: kind for kind, source in _SOURCES.items()}


def format_of(path: Path) -> Format:
    """Return the format of a file, by its name; a compressed file is named `x.tsv.gz`."""
    is_compressed = path.suffix.lower() in COMPRESSED
    return FORMATS.get(Path(path.stem if is_compressed else path.name).suffix.lower(), "text")


def source_of(
    src: Path,
    tgt: Path | None = None,
    *,
    fields: str = DEFAULT_FIELDS,
    among: Iterable[Path] = (),
) -> Source:
    """Choose the format of a corpus by its file names.

    `among` are all files that `fields` is given for: see `check_fields`.
    """
    if STANDARD_INPUT in (src, tgt):
        raise InputError(
            "standard input (-) can be read only once, but a corpus is read more than once: "
            "give a file"
        )
    if tgt is not None:
        if (format_of(src), format_of(tgt)) == ("text", "text"):
            return TwoFiles(src, tgt)
        for path, side in zip((src, tgt), SIDES, strict=True):
            check_fields(path, fields, side=side, among=[src, tgt, *among])
        return TwoSides(src, tgt, fields)
    kind = format_of(src)
    if kind == "text":
        raise InputError(
            f"{src} has no target text: give one, or a file with both sides (.tsv, .csv, "
            ".jsonl, .tmx, .po or .xlf; trees in .mrg or .ptb)"
        )
    if kind in _WITHOUT_FIELDS:
        return _WITHOUT_FIELDS[kind](src)
    names = field_names(fields)
    if len(set(names)) != 2:
        raise InputError(f"fields {fields!r}: give two names with a comma between them")
    check_fields(src, fields, among=among)
    return _SOURCES[kind](src, *names)


def text_or_corpus(
    path: Path, *, fields: str = DEFAULT_FIELDS, among: Iterable[Path] = ()
) -> Path | Source:
    """Take a file of a format with both sides as a corpus, any other as a text."""
    return path if format_of(path) == "text" else source_of(path, fields=fields, among=among)


def field_names(fields: str) -> tuple[str, ...]:
    """Split the names of one or two fields at the comma; the first is the source's."""
    names = tuple(name.strip() for name in fields.split(","))
    if not all(names) or len(names) > 2:
        raise InputError(f"fields {fields!r}: give two names with a comma between them")
    return names


def check_fields_used(fields: str, files: Iterable[Path]) -> None:
    """Raise an error if fields are named, but every file is a plain text, which has none."""
    if fields != DEFAULT_FIELDS and all(format_of(path) == "text" for path in files):
        raise InputError(
            f"--fields {fields} is for files with several: name a .tsv, .csv, .jsonl or .tmx, or "
            "leave it out"
        )


def check_fields(
    path: Path,
    fields: str,
    *,
    side: SideName | None = None,
    among: Iterable[Path] = (),
    source_only: bool = False,
) -> None:
    """Raise an error if fields are named, but a TSV has two columns and no header.

    If another file `among` those that the fields are given for has such names, they are meant for
    that file, and the first column is the source. `side` is the side that is read; None: both.
    `source_only`: no other side is wanted of any file. Warn if columns are chosen by number in a
    table that has a header, which is then read as text.
    """
    names = field_names(fields)
    if side is not None:
        names = (_name_of(side, names),)
    _warn_of_header(path, names)
    if not _lacks_names(path, names) or any(_needs_names(other, names) for other in among):
        return
    wanted = "them by number, with --fields 1,2 or 2,1"
    if source_only:
        wanted = "the source's by number, with --fields 1 or 2"
    raise InputError(
        f"{path} has two columns and no header, so none is named {' or '.join(map(repr, names))}: "
        f"choose {wanted}"
    )


def _warn_of_header(path: Path, names: tuple[str, ...]) -> None:
    delimiter = {"tsv": "\t", "csv": ","}.get(format_of(path))
    if delimiter is None or not os.path.isfile(path):  # noqa: PTH113 - a pipe can be read only once
        return
    with suppress(InputError):  # what cannot be read is reported when it is read
        if header := header_read_as_text(path, names, delimiter=delimiter):
            _log.warning(
                f"{path} line 1 looks like a header ({', '.join(map(repr, header))}) but is read "
                f"as text, because columns are chosen by number; if it is a header, use --fields "
                f"{','.join(header)}"
            )


def _needs_names(path: Path, names: tuple[str, ...]) -> bool:
    kind = format_of(path)
    has_fields = kind != "text" and kind not in _WITHOUT_FIELDS
    return has_fields and not (kind == "tsv" and _lacks_names(path, names))


def _lacks_names(path: Path, names: tuple[str, ...]) -> bool:
    # A pipe can be read only once; what cannot be read at all is reported when it is read.
    if format_of(path) == "tsv" and os.path.isfile(path):  # noqa: PTH113
        with suppress(InputError):
            return lacks_names(path, names)
    return False


def _name_of(side: SideName, names: tuple[str, ...]) -> str:
    return names[min(SIDES.index(side), len(names) - 1)]


def count_pairs(source: Path | Source) -> int:
    """Read everything; return the number of pairs, or of lines of a text; raise on an error."""
    _check_regular(source)
    if isinstance(source, Path):
        return _count_lines(source)
    if isinstance(source, TwoFiles | TwoSides):
        if isinstance(source, TwoFiles):
            n_src, n_tgt = _count_lines(source.src), _count_lines(source.tgt)
        else:
            n_src, n_tgt = (sum(1 for _ in stoppable(side)) for side in _sides(source))
        if n_src != n_tgt:
            raise InputError(
                f"{source.tgt} has {counted(n_tgt, 'line')} but {source.src} has {n_src:,}: "
                "parallel files must match line by line"
            )
        return n_src
    return sum(1 for _ in stoppable(read_pairs(source)))


def _count_lines(path: Path) -> int:
    return sum(len(lines) for lines in stoppable(read_line_blocks(path)))


def count_records(source: Source) -> int:
    """Count as `count_pairs` does, but let a few broken records pass: cleaning drops them."""
    if isinstance(source, TwoFiles | TwoSides):
        return count_pairs(source)
    _check_regular(source)
    total, broken, first = 0, 0, ""
    for pair in stoppable(read_records(source)):
        total += 1
        if isinstance(pair, BrokenPair):
            broken += 1
            first = first or pair.src
    if broken > MOST_BROKEN * total:
        others = f" (and {broken - 1:,} more of {total:,} are broken)" if broken > 1 else ""
        raise InputError(first + others)
    return total


def _check_regular(source: Path | Source) -> None:
    """Raise if a file of a corpus could be read only once."""
    paths = [source] if isinstance(source, Path) else vars(source).values()
    for path in paths:
        # Unlike Path's, these functions take a name that cannot be looked up for a missing file.
        if isinstance(path, Path) and os.path.isdir(path):  # noqa: PTH112
            raise InputError(f"{path} is a folder: name a file in it")
        if isinstance(path, Path) and os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113
            raise InputError(
                f"{path} is not a regular file; a corpus is read more than once, so give a file"
            )


def read_pairs(source: Source) -> Iterator[Pair]:
    """Stream the pairs of a source; raise if a record is broken, unless it is one of few trees."""
    if isinstance(source, TwoFiles | TwoSides):
        try:
            for texts in zip(*_sides(source), strict=True):
                yield Pair(*texts)
        except ValueError as unequal:
            count_pairs(source)  # raises an error that says which is longer
            raise ChangedFileError(source.tgt) from unequal  # it was, but is no longer
    elif isinstance(source, Trees):
        yield from (Pair(*texts) for texts in _readable_trees(source.path))
    else:
        yield from (Pair(*texts) for texts in _readable(_records_of(source)))


def read_records(source: Source) -> Iterator[Pair]:
    """Stream the pairs of a source, with a `BrokenPair` for each record that cannot be read.

    If the first record is broken, the fields are probably others, and an error is raised.
    """
    if isinstance(source, TwoFiles | TwoSides):
        yield from read_pairs(source)
        return
    for number, record in enumerate(_records_of(source)):
        if not isinstance(record, BrokenRecord):
            yield Pair(*record)
        elif number:
            yield BrokenPair(str(record.error), record.text)
        else:
            raise record.error


def read_side(
    path: Path,
    side: SideName = "src",
    *,
    fields: str = DEFAULT_FIELDS,
    source_only: bool = False,
) -> Iterator[str]:
    """Stream one side of a file of any format, one line per record; a plain text is either side.

    `fields` names both sides, or this one alone. `source_only`: no other side is wanted of any
    file, so an error asks for the source's field alone.
    """
    kind = format_of(path)
    if kind == "text":
        yield from read_lines(path)
        return
    if kind == "trees":
        yield from (texts[SIDES.index(side)] for texts in _readable_trees(path))
        return
    if kind in ("po", "xliff"):
        records = _records(path, kind, ())
        yield from (record[SIDES.index(side)] for record in _readable(records))
        return
    names, number = field_names(fields), SIDES.index(side)
    name = _name_of(side, names)
    if kind == "tmx":  # only units with both languages are records
        records = _records(path, kind, names, source_only=source_only)
        yield from (record[names.index(name)] for record in _readable(records))
    else:
        records = _records(path, kind, (name,), sides=(number,), source_only=source_only)
        yield from (text for [text] in _readable(records))


def read_texts(path: Path, names: tuple[str, ...]) -> Iterator[list[str]]:
    """Stream the columns, fields or languages of these names, each on one line.

    A plain text has one, whatever its name.
    """
    if format_of(path) == "text":
        yield from ([line] for line in read_lines(path))
    else:
        yield from _readable(_records(path, format_of(path), names))


def read_sentences(held: Path | Source) -> Iterator[str]:
    """Stream the sentences of a text, or of both sides of a corpus."""
    if isinstance(held, Path):
        yield from read_lines(held)
    elif isinstance(held, TwoFiles | TwoSides):
        for side in _sides(held):
            yield from side
    else:
        yield from (text for pair in read_pairs(held) for text in pair)


def _sides(source: TwoFiles | TwoSides) -> tuple[Iterator[str], Iterator[str]]:
    if isinstance(source, TwoFiles):
        return read_lines(source.src), read_lines(source.tgt)
    return (
        read_side(source.src, "src", fields=source.fields),
        read_side(source.tgt, "tgt", fields=source.fields),
    )


def _readable(records: Iterable[list[str] | BrokenRecord]) -> Iterator[list[str]]:
    """Stream the texts of records; raise at the first that is broken."""
    for record in records:
        if isinstance(record, BrokenRecord):
            raise record.error
        yield record


def _readable_trees(path: Path) -> Iterator[list[str]]:
    """Stream both sides of a treebank without its broken trees, and tell how many these are.

    Lines stay aligned: a tree has its words in the same place. Raise if many are broken.
    """
    total, first, broken = 0, "", 0
    for total, record in enumerate(read_trees(path), start=1):
        if not isinstance(record, BrokenRecord):
            yield record
            continue
        broken += 1
        first = first or str(record.error)
        if broken > MOST_BROKEN * total and total >= FEW_TREES:
            raise record.error
    if broken > MOST_BROKEN * total:
        raise InputError(first)
    if broken:
        others = f" ({broken - 1:,} more like it)" if broken > 1 else ""
        _tell_once(f"left out: {first}{others}")


@lru_cache(maxsize=1000)
def _tell_once(message: str) -> None:
    """Tell it the first time that a file is read: a corpus is read more than once."""
    _log.warning(message)


def _records_of(source: OneFile) -> Iterator[list[str] | BrokenRecord]:
    if isinstance(source, Trees):
        return read_trees(source.path)
    if isinstance(source, Po | Xliff):
        return _records(source.path, "po" if isinstance(source, Po) else "xliff", ())
    return _records(source.path, _FORMAT_OF_SOURCE[type(source)], (source.src, source.tgt))


def _records(
    path: Path,
    kind: Format,
    names: tuple[str, ...],
    *,
    sides: tuple[int, ...] = (0, 1),
    source_only: bool = False,
) -> Iterator[list[str] | BrokenRecord]:
    """Stream the texts of these fields of a file that is no plain text, each on one line."""
    for record in _texts(path, kind, names, sides=sides, source_only=source_only):
        if isinstance(record, BrokenRecord):
            yield record
        else:
            yield [_on_one_line(text) for text in record]


def _on_one_line(text: str) -> str:
    """Replace line breaks by spaces: a sentence is a line, in training as in translation."""
    return _LINE_BREAK.sub(" ", text) if "\n" in text or "\r" in text else text


def _texts(
    path: Path, kind: Format, names: tuple[str, ...], *, sides: tuple[int, ...], source_only: bool
) -> Iterator[list[str] | BrokenRecord] | Iterator[list[str]]:
    match kind:
        case "jsonl":
            return read_fields(path, names, source_only=source_only)
        case "tmx":
            return read_segments(path, names, source_only=source_only)
        case "po":
            return read_messages(path)
        case "xliff":
            return read_units(path)
        case _:
            sign = "," if kind == "csv" else "\t"
            return read_columns(path, names, sides=sides, delimiter=sign, source_only=source_only)
