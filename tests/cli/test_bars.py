"""Progress bars on a terminal, where other lines are printed too."""

import contextlib
import os
import pty
import re
from pathlib import Path
from threading import Thread

import pytest

from tests.command import forked, run_with_streams
from tests.system.small_runs import stopped_run, write_corpus


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is not over, of which every command says so."""
    folder = tmp_path_factory.mktemp("run")
    return stopped_run(write_corpus(folder), folder / "run", after=10)


def run_on(terminal: str, file: Path | None, arguments: list[str]) -> None:
    """Run the command with a terminal as its standard error, and a file or a pipe as its output."""
    os.environ.update({"TERM": "xterm", "COLUMNS": "200"})  # noqa: TID251
    _read, pipe = os.pipe()  # which has room for what is written here
    out = pipe if file is None else os.open(file, os.O_WRONLY | os.O_CREAT)
    run_with_streams(arguments, out=out, err=os.open(terminal, os.O_WRONLY))


def on_terminal(*arguments: str | Path, file: Path | None = None) -> list[str]:
    """Return what the command wrote on a terminal as its standard error, line by line.

    Its output goes to the file, or to a pipe.
    """
    ours, theirs = pty.openpty()
    process = forked(run_on, os.ttyname(theirs), file, list(map(str, arguments)))
    reading = Thread(target=read_all, args=(ours, written := bytearray()))
    reading.start()
    process.join()
    os.close(theirs)
    reading.join()
    os.close(ours)
    assert process.exitcode == 0, written.decode()
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "\r", written.decode()).split("\r\n")


def read_all(terminal: int, written: bytearray) -> None:
    with contextlib.suppress(OSError):  # Linux says so that the other side is closed
        while block := os.read(terminal, 1 << 16):
            written += block


def as_shown(lines: list[str]) -> list[str]:
    return [line.rstrip("\r").rpartition("\r")[2] for line in lines]


def test_translations_that_are_piped_meet_no_bar_on_the_terminal(run: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.en"
    text.write_text("A dog.\nA cat.\n")
    translate = ("translate", run, text, "--beam", "1")
    assert "translating" not in "".join(on_terminal(*translate))
    assert "translating" in "".join(on_terminal(*translate, file=tmp_path / "text.de"))


def test_what_is_said_of_the_model_stands_on_a_line_of_its_own(run: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.en"
    text.write_text("A dog.\nA cat.\n")
    files = ("--src", text, "--ref", text, "--beam", "1")
    lines = on_terminal("evaluate", run, *files)
    assert "scoring" in "".join(lines), "there was a bar"
    [note] = [line for line in as_shown(lines) if "is not over" in line]
    assert note.startswith(f"{run} is not over: weights of step ")
