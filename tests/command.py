"""The command `transduce`, run where torch is loaded already: in this process or a forked one."""

import copy
import functools
import io
import multiprocessing
import os
import re
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Literal
from unittest import mock

import pytest

PRELOADED = [
    "transduce.cli.app",
    "transduce.serving.server",
    "transduce.training.loop",
    "torch._dynamo",  # which torch loads with its first optimiser
    "matplotlib.figure",
]

UNSEEN: dict[str, object] = {
    "transduce.analysis.curves.draw_curves": lambda _events, _path: None,
    "transduce.training.plan.speed.TIMED_S": 0.0,
    "os.fsync": lambda _descriptor: None,
}
"""What takes half of a small run and is left out of it: curves, to measure the speed precisely, and
to wait for the disk, which matters only if the power fails.

A test of the command in a process of its own does all of it.
"""


@functools.cache
def made_once() -> dict[str, object]:
    """Return what computes only once in a process what is the same for every command in it."""
    from typer.main import get_command

    from transduce.analysis.cost import cost_of
    from transduce.config import load

    trees: dict[str, object] = {}

    def parse(text: str, *, origin: str, read: Callable[..., object] = load._parse) -> object:
        if text not in trees:
            trees[text] = read(text, origin=origin)
        return copy.deepcopy(trees[text])

    return {
        "transduce.config.load._parse": parse,
        "typer.main.get_command": functools.cache(get_command),  # the declared options
        "transduce.analysis.cost.cost_of": functools.cache(cost_of),  # of the model `base`
    }


def leave_out_the_unseen() -> None:
    """Do nothing that is `UNSEEN` in this process, which a test has forked."""
    for target, instead in UNSEEN.items():
        mock.patch(target, instead).start()


@dataclass(frozen=True)
class Result:
    """How the command ended, and what it printed."""

    code: int
    out: str
    err: str

    def mistake(self) -> str:
        """Return the message of a user's mistake: one line on standard error, exit code 2."""
        assert (self.code, self.out) == (2, "")
        assert self.err.startswith("transduce: ")
        assert self.err.count("\n") == 1
        assert self.err.endswith("\n")
        return self.err.removeprefix("transduce: ").rstrip("\n")


class Command:
    """Runs the command with the given arguments, on a terminal of 80 columns, without `UNSEEN`.

    What is the same for every call, such as the declared options, is made once.
    """

    def __init__(self, capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self._capture, self._patch = capture, patch

    def __call__(
        self,
        *arguments: str | Path,
        folder: Path | None = None,
        env: dict[str, str] | None = None,
        given: bytes = b"",
    ) -> Result:
        """Run it in a folder, with variables of the environment and standard input as given."""
        from transduce.cli.app import main

        self._capture.readouterr()
        with self._patch.context() as patch:
            patch.setattr(sys, "argv", ["transduce", *map(str, arguments)])
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
            for target, instead in (UNSEEN | made_once()).items():
                patch.setattr(target, instead)
            for name, value in ({"COLUMNS": "80"} | (env or {})).items():
                patch.setenv(name, value)
            if folder is not None:
                patch.chdir(folder)
            with pytest.raises(SystemExit) as ended:
                main()
        printed = self._capture.readouterr()
        return Result(int(ended.value.code or 0), printed.out, printed.err)


@dataclass(frozen=True)
class KillAt:
    """A moment: before a file is opened or renamed whose name ends with a match of the pattern."""

    event: Literal["open", "os.rename"]
    pattern: str

    def watch(self) -> None:
        """Have this process kill itself at that moment."""

        def kill(event: str, arguments: tuple[object, ...]) -> None:
            if event == self.event and re.search(f"{self.pattern}$", str(arguments[0])):
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(kill)


def start(
    *arguments: str | Path,
    log: Path,
    kill_at: KillAt | None = None,
    max_file_bytes: int | None = None,
    folder: Path | None = None,
) -> BaseProcess:
    """Start the command in a process of its own that prints to a file.

    `max_file_bytes` stands for a disk that is full. It does nothing that is `UNSEEN`.
    """
    return forked(_run, list(map(str, arguments)), log, kill_at, max_file_bytes, folder)


def forked(function: Callable[..., None], *arguments: object) -> BaseProcess:
    """Call a function in a process of its own.

    The process is forked from a server that has loaded torch once, which saves seconds.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=function, args=arguments)
    process.start()
    return process


def run_with_streams(arguments: Sequence[str], *, out: int, err: int) -> None:
    """Run the command with open files as its output: in a process that a test has forked."""
    from transduce.cli.app import main

    leave_out_the_unseen()
    for number, file in ((1, out), (2, err)):
        os.dup2(file, number)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    sys.argv = ["transduce", *arguments]
    main()


def _run(
    arguments: list[str],
    log: Path,
    kill_at: KillAt | None,
    max_file_bytes: int | None,
    folder: Path | None,
) -> None:
    from transduce.cli.app import main

    if folder is not None:
        os.chdir(folder)
    if max_file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_bytes, max_file_bytes))
    leave_out_the_unseen()
    for number in (signal.SIGINT, signal.SIGHUP):  # which nohup would have ignored
        signal.signal(number, signal.SIG_DFL)
    os.cpu_count = lambda: 1  # little text needs no processes to encode it
    sys.argv = ["transduce", *arguments]
    with log.open("w", buffering=1, encoding="utf-8") as printed:
        sys.stdout = sys.stderr = printed
        if kill_at is not None:
            kill_at.watch()
        main()
