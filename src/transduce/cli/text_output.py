"""Where lines go: standard output as they are made, or a file that is complete or not there."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

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
    """Open a file under another name, which becomes its own when all is written.

    It is always the same name, so that a killed process leaves at most one, for the next to use.
    """
    if path.exists() and not path.is_file():  # a device or a pipe is not replaced
        with path.open("wb") as stream:
            yield stream
        return
    path = path.resolve()  # behind a link it is the file that is replaced
    making = path.with_name(f"{path.name}.making")
    try:
        with making.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        making.replace(path)
    finally:
        with suppress(OSError):
            making.unlink()


def _to_standard_output(line: str) -> None:
    if sys.stdout is None:
        raise InputError("standard output is closed: name a file with --out")
    _write(sys.stdout.buffer, line)
    sys.stdout.buffer.flush()


def _write(stream: BinaryIO, line: str) -> None:
    stream.write(line.encode() + b"\n")
