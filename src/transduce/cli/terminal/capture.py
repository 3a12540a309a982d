"""Output of others while live lines are shown: each of its lines is printed above them.

Python's `sys.stderr` is only one way to a terminal: loggers hold the stream of their own start,
libraries and other processes write to the descriptor itself. So the descriptors are captured.
"""

import faulthandler
import os
import re
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_STANDARD_STREAMS = (1, 2)
_ESCAPE_CODES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07")
_BLOCK = 1 << 16


@contextmanager
def capturing_output(print_line: Callable[[str], None]) -> Iterator[None]:
    """Pass on, line by line, what any code writes to standard streams that are terminals.

    The function must write elsewhere: to a copy of the descriptor, made before.
    """
    reading, writing = os.pipe()
    stopping, stop = os.pipe()
    terminals = {number: os.dup(number) for number in _STANDARD_STREAMS if os.isatty(number)}
    reader = threading.Thread(target=_forward, args=(reading, stopping, print_line), daemon=True)
    reader.start()
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
        for number, terminal in terminals.items():
            os.dup2(terminal, number)
            os.close(terminal)
        os.close(stop)
        reader.join()
        os.close(reading)
        os.close(stopping)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _forward(reading: int, stopping: int, print_line: Callable[[str], None]) -> None:
    """Print complete lines as they come; at the end also one that is not complete."""
    rest = b""
    is_over = False
    while not is_over:
        # Other processes may keep the pipe open, so its end is no sign that the display is over.
        ready, _, _ = select.select([reading, stopping], [], [])
        is_over = stopping in ready
        while select.select([reading], [], [], 0)[0]:
            block = os.read(reading, _BLOCK)
            if not block:
                is_over = True
                break
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                print_line(_shown(line))
    if rest:
        print_line(_shown(rest))


def _shown(line: bytes) -> str:
    """Return what a terminal would show of a line: without codes, and after the last return."""
    text = _ESCAPE_CODES.sub("", line.decode(errors="replace"))
    return text.rstrip("\r").rpartition("\r")[2]
