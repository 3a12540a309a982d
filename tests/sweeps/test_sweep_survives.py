"""Killed at any moment, `transduce sweep` run again ends with the very same runs.

`pytest tests/sweeps/test_sweep_survives.py --moments 20` tries more moments than the usual run.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tests.command import start
from tests.sweeps.small_sweeps import products, sweep_file, write_texts
from transduce.files.locks import locked
from transduce.sweeps.file import read_sweep_file
from transduce.sweeps.plan import make_plan
from transduce.sweeps.report import write_report
from transduce.sweeps.running.machines import LocalMachine
from transduce.sweeps.running.runner import run_sweep

AT_ONCE = 2


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    texts = write_texts(folder / "texts")
    # Far more than the steps until a signal is sent.
    return sweep_file(folder / "s.yaml", texts, budget={"steps": 36})


def sweep(file: Path, out: Path) -> BaseProcess:
    log = out.with_suffix(".log")
    return start("sweep", file, "--out", out, "--at-once", str(AT_ONCE), log=log)


def finish(file: Path, out: Path) -> dict[str, bytes]:
    """Sweep to the end in this process, whose server of processes has loaded torch already."""
    plan = make_plan(read_sweep_file(file), out)
    assert run_sweep(plan, machines=LocalMachine(AT_ONCE)).failed == []
    write_report(plan)
    return products(out)


def results(out: Path) -> str:
    """The table, without the minutes of each run."""
    table = (out / "results.md").read_text(encoding="utf-8").partition("## Runs")[0]
    return table.replace(f"# {out.name}\n", "")


@pytest.fixture(scope="module")
def undisturbed(file: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    out, began = tmp_path_factory.mktemp("undisturbed") / "out", time.monotonic()
    assert len(finish(file, out)) == 4
    return out, time.monotonic() - began


def has_checkpoint(out: Path) -> bool:
    return any(out.glob("runs/base/*/checkpoints/step-*6"))


def is_resumed(out: Path) -> bool:
    journal = out / "runs" / "base" / "seed-1" / "journal.jsonl"
    return journal.read_text(encoding="utf-8").count('"Started"') == 2


def after(seconds: float) -> Callable[[Path], bool]:
    end = time.monotonic() + seconds
    return lambda _out: time.monotonic() > end


def disturbed(file: Path, out: Path, moment: Callable[[Path], bool], number: int) -> int | None:
    """Send a signal at a moment, and return how the sweep ended."""
    process = sweep(file, out)
    while process.is_alive() and not moment(out):
        time.sleep(0.002)
    assert process.pid is not None
    if process.is_alive():
        os.kill(process.pid, number)
    process.join()
    return process.exitcode


def test_stopped_and_killed_while_runs_train(
    file: Path, undisturbed: tuple[Path, float], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    code = disturbed(file, out, has_checkpoint, signal.SIGINT)
    log = out.with_suffix(".log").read_text()
    assert code == 128 + signal.SIGINT, log
    assert "Stopped. The same command goes on from here." in log
    assert disturbed(file, out, is_resumed, signal.SIGKILL) == -signal.SIGKILL
    with locked(out / "runs" / "base" / "seed-1" / "lock"):
        pass  # the process of the run ends by itself, which releases the lock
    assert finish(file, out) == products(undisturbed[0])
    assert results(out) == results(undisturbed[0])


@pytest.mark.exhaustive
def test_killed_at_random_moments(
    file: Path, undisturbed: tuple[Path, float], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Kill it again and again until `--moments` kills have hit; then it ends as if nothing was."""
    out, seconds = undisturbed
    count, hits, attempt = int(request.config.getoption("--moments")), 0, 0
    dice = random.Random(7)  # noqa: S311 - a test repeats itself
    while hits < count:
        attempt += 1
        other = tmp_path / str(attempt)
        while hits < count:
            code = disturbed(file, other, after(dice.uniform(0, seconds)), signal.SIGKILL)
            if code == 0:
                break
            assert code == -signal.SIGKILL, other.with_suffix(".log").read_text()
            hits += 1
        assert finish(file, other) == products(out)
        assert results(other) == results(out)
