"""Output lines: to standard output as they are written, or to a file that is complete or absent."""

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from transduce.errors import InputError
from transduce.files.atomic import exclusive_file
from transduce.files.errors import reporting_read_errors, reporting_write_errors

if TYPE_CHECKING:
    from rich.console import Console

Write = Callable[[str], None]
"""Writes one line and ends it."""


@contextmanager
def text_output(path: Path | None) -> Iterator[Write]:
    """Give a function that writes lines as UTF-8 to a file, or to standard output."""
    if path is None:
        yield _to_standard_output
        return
    with reporting_write_errors(path), _opened(path) as stream:
        yield lambda line: _write(stream, line)


def write_bytes(content: bytes, path: Path | None) -> None:
    """Write to a file that is complete or absent, or to standard output."""
    if path is not None:
        with reporting_write_errors(path), _opened(path) as stream:
            stream.write(content)
    elif sys.stdout is None:
        raise InputError("standard output is closed: name a file with --out")
    else:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


def check_new_file(path: Path | None, *, option: str = "--out", ours: bytes | None = None) -> None:
    """Raise if a file would be replaced, unless it is empty or begins as our earlier one did."""
    if path is None or not path.is_file() or path.stat().st_size == 0:
        return
    if ours is not None:
        with reporting_read_errors(path), path.open("rb") as stream:
            if stream.read(len(ours)) == ours:
                return
    raise InputError(f"{path} exists already: choose another {option}, or remove it")


def may_reach_terminal() -> bool:
    """Whether standard output is a terminal, or a pipe whose reader may write to the same one."""
    if sys.stdout is None:
        return False
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    except OSError:  # it is no file of the system's
        is_pipe = False
    return is_pipe or sys.stdout.isatty()


def drop_unwritable_output() -> None:
    """Send to nowhere what is written to standard streams from now on whose reader is gone.

    What is still buffered is dropped too, or Python would fail again when it exits.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def lasting_console() -> "Console":
    """Return a console on standard error that goes on without a word if its reader is gone."""
    from rich.console import Console

    class LastingConsole(Console):
        def on_broken_pipe(self) -> None:
            self.quiet = True
            drop_unwritable_output()

    return LastingConsole(stderr=True)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces the old one when everything is written."""
    if path.exists() and not path.is_file():  # a device or a pipe is not replaced
        with path.open("wb") as stream:
            yield stream
        return
    # A link stays: the file that it points to is replaced.
    with exclusive_file(path.resolve()) as making, making.open("wb") as stream:
        yield stream


def _to_standard_output(line: str) -> None:
    if sys.stdout is None:
        raise InputError("standard output is closed: name a file with --out")
    _write(sys.stdout.buffer, line)
    sys.stdout.buffer.flush()


def _write(stream: BinaryIO, line: str) -> None:
    stream.write(line.encode() + b"\n")
