"""Where lines go: standard output as they are made, or a file that is complete or not there."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from transduce.disk import replacing
from transduce.errors import InputError

Write = Callable[[str], None]
"""Writes one line, to which it adds the end."""


@contextmanager
def text_output(path: Path | None) -> Iterator[Write]:
    """Write lines of UTF-8, whatever the terminal speaks: to a file, or to standard output."""
    if path is None:
        yield _to_standard_output
        return
    try:
        with _opened(path) as stream:
            yield lambda line: _write(stream, line)
    except OSError as fault:
        raise InputError(f"cannot write {path}: {fault.strerror}") from fault


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of an older one when all is written."""
    if path.exists() and not path.is_file():  # a device or a pipe is not replaced
        with path.open("wb") as stream:
            yield stream
        return
    # Behind a link it is the file that is replaced.
    with replacing(path.resolve()) as making, making.open("wb") as stream:
        yield stream


def _to_standard_output(line: str) -> None:
    if sys.stdout is None:
        raise InputError("standard output is closed: name a file with --out")
    _write(sys.stdout.buffer, line)
    sys.stdout.buffer.flush()


def _write(stream: BinaryIO, line: str) -> None:
    stream.write(line.encode() + b"\n")
