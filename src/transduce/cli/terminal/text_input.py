"""Input lines: of files, one after the other, or of standard input as they arrive."""

import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from transduce.data.corpus import MAX_LINE_BYTES, read_lines
from transduce.errors import InputError


class TextInput:
    """The lines of files as one stream; without files, those of standard input."""

    def __init__(self, files: Sequence[Path]) -> None:
        for path in files:
            if not path.exists():
                raise InputError(f"cannot read {path}: No such file or directory")
        self._files = list(files)
        self._starts: list[int] = []  # of each file, the number of its first line

    @property
    def can_be_read_twice(self) -> bool:
        """Whether the input is files, not standard input or another pipe."""
        return bool(self._files) and all(path.is_file() for path in self._files)

    @property
    def is_interactive(self) -> bool:
        """Whether lines are typed on a terminal, so that each is answered at once."""
        return not self._files and sys.stdin is not None and sys.stdin.isatty()

    def __iter__(self) -> Iterator[str]:
        if not self._files:
            if sys.stdin is None:
                raise InputError("standard input is closed: name a file")
            yield from read_stream(sys.stdin.buffer, "standard input")
        self._starts = []
        number = 0
        for path in self._files:
            self._starts.append(number)
            for line in read_lines(path):
                number += 1
                yield line

    def location(self, number: int) -> str:
        """Return file and line of a line that was read, numbered from 0 over all files."""
        if len(self._files) < 2:
            return f"line {number + 1:,}"
        file = bisect_right(self._starts, number) - 1
        return f"{self._files[file]} line {number - self._starts[file] + 1:,}"


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
                "convert it to UTF-8"
            ) from undecodable
        if number == 1:
            text = text.removeprefix("\ufeff")
        yield text.removesuffix("\n").removesuffix("\r")
