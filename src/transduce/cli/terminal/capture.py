"""Output of others while live lines are shown: each of its lines is printed above them.

Python's `sys.stderr` is only one way to a terminal: loggers hold the stream of their own start,
libraries and other processes write to the descriptor itself. So the descriptors are captured.
"""

import atexit
import faulthandler
import os
import re
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_STANDARD_STREAMS = (1, 2)
_ESCAPE_CODES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07")
_BLOCK = 1 << 16


@contextmanager
def capturing_output(print_line: Callable[[str], None]) -> Iterator[None]:
    """Pass on, line by line, what any code writes to standard streams that are terminals.

    The function must write elsewhere: to a copy of the descriptor, made before. If it fails, output
    goes to the terminal as it is from then on. So does that of a process that was started meanwhile
    and outlives the display; when this process ends, such a process writes to a closed pipe.
    """
    reading, writing = os.pipe()
    stopping, stop = os.pipe()
    terminals = {number: os.dup(number) for number in _STANDARD_STREAMS if os.isatty(number)}
    reader = _Reader(reading, stopping, terminals, print_line)
    thread = threading.Thread(target=reader.run, daemon=True)
    thread.start()
    _flush()
    for number in terminals:
        os.dup2(writing, number)
    os.close(writing)
    # A crash of the whole process leaves no time to read what it wrote: say where it happened.
    shows_crashes = 2 in terminals and not faulthandler.is_enabled()
    if shows_crashes:
        faulthandler.enable(terminals[2])
    try:
        yield
    finally:
        if shows_crashes:
            faulthandler.disable()
        _flush()
        _restore(terminals)
        os.write(stop, b".")  # a forked process may hold a copy, so closing it may tell nothing
        reader.has_printed.wait()
        atexit.register(thread.join, 1.0)  # until then, what other processes wrote is passed on
        for number in (stop, stopping, *terminals.values()):
            os.close(number)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(OSError, ValueError):  # it is gone or closed; its next user will see
                stream.flush()


def _restore(terminals: dict[int, int]) -> None:
    for number, terminal in terminals.items():
        os.dup2(terminal, number)


class _Reader:
    """Reads the pipe to its end, whatever happens: who writes to a full pipe waits."""

    def __init__(
        self,
        reading: int,
        stopping: int,
        terminals: dict[int, int],
        print_line: Callable[[str], None],
    ) -> None:
        self.has_printed = threading.Event()  # nothing is left for the display
        self._reading, self._stopping, self._terminals = reading, stopping, terminals
        self._print_line: Callable[[str], None] | None = print_line
        self._raw = os.dup(next(iter(terminals.values()))) if terminals else None

    def run(self) -> None:
        """Print lines while there is a display, then pass on what other processes write."""
        try:
            self._print_lines()
        finally:
            self.has_printed.set()
        while block := os.read(self._reading, _BLOCK):
            self._write(block)
        os.close(self._reading)
        if self._raw is not None:
            os.close(self._raw)

    def _print_lines(self) -> None:
        """Print complete lines as they come; at the end also one that is not complete."""
        rest = b""
        is_over = False
        while not is_over:
            # Other processes may keep the pipe open, so its end is no sign that the display is
            # over.
            ready, _, _ = select.select([self._reading, self._stopping], [], [])
            is_over = self._stopping in ready
            while select.select([self._reading], [], [], 0)[0]:
                block = os.read(self._reading, _BLOCK)
                if not block:
                    is_over = True
                    break
                *lines, rest = (rest + block).split(b"\n")
                for line in lines:
                    self._print(line)
        if rest:
            self._print(rest)

    def _print(self, line: bytes) -> None:
        if self._print_line is not None:
            try:
                self._print_line(_shown(line))
            except Exception:  # noqa: BLE001 - the display is broken, in whatever way
                self._print_line = None
                _restore(self._terminals)
            else:
                return
        self._write(line + b"\n")

    def _write(self, block: bytes) -> None:
        """Write to the terminal itself, if it still exists."""
        with suppress(OSError):
            while block and self._raw is not None:
                block = block[os.write(self._raw, block) :]


def _shown(line: bytes) -> str:
    """Return what a terminal would show of a line: without codes, and after the last return."""
    text = _ESCAPE_CODES.sub("", line.decode(errors="replace"))
    return text.rstrip("\r").rpartition("\r")[2]
