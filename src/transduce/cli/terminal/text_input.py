"""Input lines: of files, one after the other, or of standard input as they arrive."""

import shutil
import sys
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from transduce.data.corpus import (
    DEFAULT_FIELDS,
    STANDARD_INPUT,
    check_fields,
    check_fields_used,
    field_names,
    format_of,
    read_lines,
    read_side,
)
from transduce.data.formats.broken import how_to_convert_stream
from transduce.data.formats.lines import MAX_LINE_BYTES
from transduce.errors import InputError, counted
from transduce.files.errors import reporting_read_errors
from transduce.files.unchanged import ChangedFileError

LINE_BY_LINE = ("text", "jsonl")
"""Formats whose records are lines."""


class TextInput:
    """The lines of files as one stream; without files, those of standard input.

    Of a file with both sides, these are the source side's, one for each record.
    """

    def __init__(self, files: Sequence[Path], *, fields: str = DEFAULT_FIELDS) -> None:
        self._files = list(files) or [STANDARD_INPUT]
        self.fields = fields
        field_names(fields)
        for path in self._files:
            if path != STANDARD_INPUT and not path.exists():
                hint = "; if it is the text itself, pipe it in with echo"
                raise InputError(
                    f"cannot read {path}: No such file or directory{hint * (' ' in path.name)}"
                )
        if self._files.count(STANDARD_INPUT) > 1:
            raise InputError("standard input (-) can be read only once: name it once")
        check_fields_used(fields, self._files)
        for path in self._files:
            check_fields(path, fields, side="src", among=self._files, source_only=True)
        self._starts: list[int] = []  # of each file, the number of its first line
        self._counts: dict[int, int] = {}  # of each file, how many lines it had

    @property
    def can_be_read_twice(self) -> bool:
        """Whether the input is files, not standard input or another pipe."""
        return all(path.is_file() for path in self.files)

    @property
    def files(self) -> list[Path]:
        """The files in order; standard input is `-`."""
        return list(self._files)

    @property
    def is_interactive(self) -> bool:
        """Whether lines are typed on a terminal, so that each is answered at once."""
        is_typed = self._files == [STANDARD_INPUT] and sys.stdin is not None
        return is_typed and sys.stdin.isatty()

    def __iter__(self) -> Iterator[str]:
        self._starts = []
        number = 0
        for file, path in enumerate(self._files):
            self._starts.append(number)
            try:
                for line in self._lines(path):
                    number += 1
                    yield line
            except ChangedFileError as changed:
                raise self._changed(file, number - self._starts[-1]) from changed
            self._counts.setdefault(file, number - self._starts[-1])

    def _lines(self, path: Path) -> Iterator[str]:
        if path != STANDARD_INPUT:
            return read_side(path, "src", fields=self.fields, source_only=True)
        return read_stream(_standard_input(), "standard input")

    def _changed(self, file: int, found: int) -> InputError:
        return InputError(
            f"{self._files[file]} was changed while it was translated: it had "
            f"{counted(self._counts.get(file, 0), 'line')} and now has {found:,}; run the command "
            "again once it stays the same"
        )

    def location(self, number: int) -> str:
        """Return file and line of a line that was read, numbered from 0 over all files."""
        file = bisect_right(self._starts, number) - 1
        path = self._files[file]
        what = "line" if format_of(path) in LINE_BY_LINE else "record"
        place = f"{what} {number - self._starts[file] + 1:,}"
        if len(self._files) < 2:
            return place
        return f"{'standard input' if path == STANDARD_INPUT else path} {place}"


def text_of(path: Path) -> Iterator[str]:
    """Stream the lines of a text file, or of standard input for `-`."""
    is_piped = path == STANDARD_INPUT
    return read_stream(_standard_input(), "standard input") if is_piped else read_lines(path)


def read_stream(stream: BinaryIO, name: str) -> Iterator[str]:
    """Stream lines as they arrive, by the rules of files: UTF-8, ended by LF or CR LF."""
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise InputError(f"{name} has a line of over {MAX_LINE_BYTES:,} bytes: is it text?")
        try:
            text = line.decode()
        except UnicodeDecodeError as undecodable:
            raise InputError(
                f"{name} line {number:,} byte {undecodable.start + 1:,}: not UTF-8; "
                f"{how_to_convert_stream(line)}"
            ) from undecodable
        if number == 1:
            text = text.removeprefix("\ufeff")
        yield text.removesuffix("\n").removesuffix("\r")


@contextmanager
def files_of_pipes() -> Iterator[Callable[[Path], Path]]:
    """Give a function that returns a regular file for a path, to be read more than once.

    Standard input, `-`, and other pipes are copied to a temporary file. Standard input may be
    named once.
    """
    taken: list[Path] = []
    with tempfile.TemporaryDirectory() as folder:

        def file_of(path: Path) -> Path:
            if path == STANDARD_INPUT:
                if path in taken:
                    raise InputError("standard input (-) can be read only once: name it once")
                taken.append(path)
                return _copied(_standard_input(), Path(folder) / "standard input")
            if not path.exists() or path.is_file() or path.is_dir():
                return path
            taken.append(path)
            with reporting_read_errors(path), path.open("rb") as stream:
                return _copied(stream, Path(folder) / f"{len(taken)}-{path.name}")

        yield file_of


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise InputError("standard input is closed: name a file")
    return sys.stdin.buffer


def _copied(stream: BinaryIO, path: Path) -> Path:
    with path.open("wb") as copy:
        shutil.copyfileobj(stream, copy)
    return path
