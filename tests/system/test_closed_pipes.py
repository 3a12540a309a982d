"""A reader of the output that has had enough, as `| head` has: the command ends without a word.

The pipe is closed before the command starts, so that its first line finds no reader.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import forked, run_with_streams
from tests.system.small_runs import training, write_corpus
from tests.translation.likely import random_model, saved, sentences

CLOSED = 128 + signal.SIGPIPE
"""The exit code of a program that a closed pipe stops, as a shell gives it."""


def run_on_closed_pipe(arguments: list[str], err: Path | None) -> None:
    """Run the command with output that nobody reads; so is its standard error without a file."""
    reading, writing = os.pipe()
    os.close(reading)
    file = writing if err is None else os.open(err, os.O_WRONLY | os.O_CREAT)
    run_with_streams(arguments, out=writing, err=file)


def exit_code(*arguments: str | Path, err: Path | None = None) -> int | None:
    process = forked(run_on_closed_pipe, list(map(str, arguments)), err)
    process.join()
    return process.exitcode


@pytest.fixture
def closed_pipe() -> Iterator[int]:
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


def run(*arguments: str | Path, out: int, err: int = subprocess.PIPE) -> tuple[int, bytes]:
    command = [sys.executable, "-m", "transduce", *map(str, arguments)]
    result = subprocess.run(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, check=False)
    return result.returncode, result.stderr


@pytest.mark.parametrize("arguments", [("--help",), ("presets",), ("data", "list")])
def test_a_command_ends_quietly(arguments: tuple[str, ...], closed_pipe: int) -> None:
    assert run(*arguments, out=closed_pipe) == (CLOSED, b"")


def test_a_translation_ends_quietly(tmp_path: Path) -> None:
    model = saved(tmp_path / "model", random_model(seed=5))
    text = tmp_path / "text.en"
    text.write_text("".join(f"{line}\n" for line in sentences(2)), encoding="utf-8")
    said = tmp_path / "said"
    assert exit_code("translate", model, text, "--beam", "1", err=said) == CLOSED
    assert said.read_bytes() == b""


def test_a_mistake_keeps_its_exit_code(closed_pipe: int) -> None:
    code, _ = run("describe", "none", out=closed_pipe, err=closed_pipe)
    assert code == 2


def test_training_goes_on_to_its_end(tmp_path: Path) -> None:
    """Its product is the folder: a log that nobody reads any more costs no hours of training."""
    corpus = write_corpus(tmp_path / "corpus")
    arguments = training(corpus, tmp_path / "run", training__steps=4)
    assert exit_code(*arguments) == 0
    assert (tmp_path / "run" / "README.md").exists()
