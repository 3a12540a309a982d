"""Progress bars on a terminal, where other lines are printed too."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from tests.system.small_runs import stopped_run, write_corpus


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is not over, of which every command says so."""
    folder = tmp_path_factory.mktemp("run")
    return stopped_run(write_corpus(folder), folder / "run", after=10)


def on_terminal(*arguments: str | Path, stdout: int | IO[bytes]) -> list[str]:
    """Return what the command wrote on a terminal as its standard error, line by line."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "transduce", *map(str, arguments)]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "200"}  # noqa: TID251
    with subprocess.Popen(command, stdout=stdout, stderr=theirs, env=environment) as process:
        os.close(theirs)
        written = b""
        try:
            while block := os.read(ours, 1 << 16):
                written += block
        except OSError:  # Linux says so that the other side is closed
            pass
        process.communicate()
    os.close(ours)
    assert process.returncode == 0, written.decode()
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "\r", written.decode()).split("\r\n")


def as_shown(lines: list[str]) -> list[str]:
    return [line.rstrip("\r").rpartition("\r")[2] for line in lines]


def test_translations_that_are_piped_meet_no_bar_on_the_terminal(run: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.en"
    text.write_text("A dog.\nA cat.\n")
    translate = ("translate", run, text, "--beam", "1")
    assert "translating" not in "".join(on_terminal(*translate, stdout=subprocess.PIPE))
    with (tmp_path / "text.de").open("wb") as file:
        assert "translating" in "".join(on_terminal(*translate, stdout=file))


def test_what_is_said_of_the_model_stands_on_a_line_of_its_own(run: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.en"
    text.write_text("A dog.\nA cat.\n")
    files = ("--src", text, "--ref", text, "--beam", "1")
    lines = on_terminal("evaluate", run, *files, stdout=subprocess.PIPE)
    assert "scoring" in "".join(lines), "there was a bar"
    [note] = [line for line in as_shown(lines) if "is not over" in line]
    assert note.startswith(f"{run} is not over: weights of step ")
