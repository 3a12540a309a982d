"""Captured output reaches the terminal whatever becomes of the display, and nobody waits for it."""

import os
import pty
import subprocess
import sys
import termios
import threading

import pytest

GIVEN_UP_S = 60
START = """
import os, subprocess, sys, threading
from transduce.cli.terminal.capture import capturing_output
lines, has_printed = [], threading.Event()
def print_line(line):
    if line == "break":
        raise OSError(5, "Input/output error")
    lines.append(line)
    has_printed.set()
"""


def written_on_a_terminal(program: str, *arguments: str) -> str:
    """Run a program on a terminal; return what stood there in the end."""
    ours, theirs = pty.openpty()
    settings = termios.tcgetattr(theirs)
    settings[1] &= ~termios.OPOST  # line breaks as they are written
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    with subprocess.Popen(
        [sys.executable, "-c", START + program, *arguments], stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        watch = threading.Timer(GIVEN_UP_S, process.kill)
        watch.start()
        written = b""
        try:
            while block := os.read(ours, 1 << 16):
                written += block
        except OSError:  # Linux says so that the other side is closed
            pass
        watch.cancel()
    os.close(ours)
    assert process.returncode == 0, written.decode()
    return written.decode()


def test_a_display_that_fails_stops_nobody() -> None:
    """Far more is written than a pipe holds, by this process and by another."""
    program = """
with capturing_output(print_line):
    writer = subprocess.Popen(
        [sys.executable, "-c", "input(); [print('c' * 99) for _ in range(3000)]"],
        stdin=subprocess.PIPE,
    )
    os.write(2, b"shown\\nbreak\\nafter\\n")
    writer.communicate(b"\\n")
    os.write(1, b"d" * 300_000 + b"\\n")
assert lines == ["shown"], lines
"""
    written = written_on_a_terminal(program)
    assert written.startswith("break\nafter\n")
    assert written.count("c" * 99 + "\n") == 3000
    assert "d" * 300_000 in written


def test_a_process_that_outlives_the_display_goes_on() -> None:
    program = """
with capturing_output(print_line):
    other = subprocess.Popen(
        [sys.executable, "-c", "print('early', flush=True); input(); print('late', flush=True)"],
        stdin=subprocess.PIPE,
    )
    has_printed.wait()
other.communicate(b"\\n")
assert other.returncode == 0, other.returncode
assert lines == ["early"], lines
"""
    assert written_on_a_terminal(program) == "late\n"


def test_a_forked_process_does_not_keep_the_display_open() -> None:
    program = """
with capturing_output(print_line):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    print("from here", flush=True)
os.close(writing)
os.waitpid(child, 0)
assert lines == ["from here"], lines
"""
    assert written_on_a_terminal(program) == ""


@pytest.mark.parametrize("gone", ["sys.stdout.close()", "sys.stdout = None"])
def test_a_stream_that_is_gone_does_not_keep_the_terminal_captured(gone: str) -> None:
    program = f"""
stdout = os.dup(1)
with capturing_output(print_line):
    {gone}
    os.dup2(2, 1)
os.write(2, b"free\\n")
assert os.isatty(2)
sys.stdout = os.fdopen(stdout, "w")
"""
    assert written_on_a_terminal(program) == "free\n"
