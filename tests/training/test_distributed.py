"""Several processes over Gloo, started by torchrun as a user would."""

import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.training.many import Job, run_job
from transduce.training.distributed import Processes

ROOT = Path(__file__).parents[2]
STOP_AFTER = 13
"""Not a step at which a checkpoint is due."""


def launch(
    processes: int, *jobs: Job, timeout_s: float = 60, torchrun: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Have processes that torchrun starts do these jobs together, one after the other."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(processes), *torchrun, "-m", "tests.training.many"]
    command += [json.dumps([asdict(job) for job in jobs]), "--timeout", str(timeout_s)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def alone(job: Job) -> dict[str, Any]:
    """Do a job in this process, and return what it computed."""
    Path(job.folder).mkdir(exist_ok=True)
    run_job(job, Processes())
    return result(Path(job.folder))


def result(folder: Path, rank: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"rank{rank}.json").read_text(encoding="utf-8"))
    return found


def relative(a: list[float], b: list[float]) -> float:
    return float(np.linalg.norm(np.subtract(a, b)) / np.linalg.norm(b))


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one process computes in a whole run."""
    return alone(Job(str(tmp_path_factory.mktemp("one"))))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes compute: all jobs in one launch, which takes seconds."""
    folder = tmp_path_factory.mktemp("two")
    for name in ("whole", "cut", "dealt", "stopped", "resumed"):
        (folder / name).mkdir()
    alone(Job(str(folder / "resumed"), stop_after=STOP_AFTER))
    done = launch(
        2,
        Job(str(folder / "whole")),
        Job(str(folder / "cut"), steps=1, accumulate=1),
        Job(str(folder / "dealt"), steps=1, accumulate=2),
        Job(str(folder / "stopped"), stop_after=STOP_AFTER),
        Job(str(folder / "resumed")),
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_two_processes_compute_what_one_does(one: dict[str, Any], two: Path) -> None:
    together, second = result(two / "whole"), result(two / "whole", rank=1)
    assert together["weights"] == second["weights"], "ranks agree to the bit"
    assert [step for step, _ in together["losses"]] == [step for step, _ in one["losses"]]
    for (_, by_one), (_, by_two) in zip(one["losses"], together["losses"], strict=True):
        assert by_two == pytest.approx(by_one, rel=1e-4)


@pytest.mark.parametrize(("name", "accumulate"), [("cut", 1), ("dealt", 2)])
def test_gradients_are_the_same_whether_batches_are_cut_or_dealt(
    name: str, accumulate: int, two: Path, tmp_path: Path
) -> None:
    """Two processes share one batch a step, or take one each of two."""
    expected = alone(Job(str(tmp_path), steps=1, accumulate=accumulate))
    assert relative(result(two / name)["gradient"], expected["gradient"]) < 1e-5


@pytest.mark.exhaustive
def test_gradients_are_the_same_for_three_processes(tmp_path: Path) -> None:
    """Of two batches a step, one has to be cut."""
    job = Job(str(tmp_path), steps=1, accumulate=2)
    done = launch(3, job)
    assert done.returncode == 0, done.stderr
    many = result(tmp_path)["gradient"]
    one = alone(Job(str(tmp_path / "one"), steps=1, accumulate=2))
    assert relative(many, one["gradient"]) < 1e-5


def assert_continues(parts: dict[str, Any], one: dict[str, Any]) -> None:
    """That every sentence is taken once is shown in tests/data; here that the losses continue."""
    assert [step for step, _ in parts["losses"]] == [20, 20]
    assert parts["losses"][-1][1] == pytest.approx(one["losses"][-1][1], rel=1e-4)
    assert relative(parts["weights"], one["weights"]) < 1e-3


def test_two_processes_resume_what_one_began(one: dict[str, Any], two: Path) -> None:
    assert_continues(result(two / "resumed"), one)


def test_one_process_resumes_what_two_began(one: dict[str, Any], two: Path) -> None:
    assert_continues(alone(Job(str(two / "stopped"))), one)


@pytest.mark.exhaustive
def test_without_restarts_a_process_that_dies_ends_the_run(tmp_path: Path) -> None:
    done = launch(2, Job(str(tmp_path), fail="die"), timeout_s=3)
    assert done.returncode != 0
    assert "rank      : 1" in done.stderr


@pytest.mark.exhaustive
def test_a_process_that_hangs_ends_the_run_within_the_timeout(tmp_path: Path) -> None:
    start = time.monotonic()
    done = launch(2, Job(str(tmp_path), fail="hang"), timeout_s=3)
    assert done.returncode != 0
    assert time.monotonic() - start < 60
    assert "Rank 1 failed to pass" in done.stderr
    assert "run the same command again" in done.stderr


@pytest.mark.exhaustive
def test_torchruns_restart_continues_from_the_checkpoint(
    one: dict[str, Any], tmp_path: Path
) -> None:
    done = launch(2, Job(str(tmp_path), fail="die"), timeout_s=20, torchrun=("--max-restarts", "1"))
    assert done.returncode == 0, done.stderr
    run = result(tmp_path)
    assert run["losses"][0][0] == 20, "the second attempt starts after the checkpoint of step 10"
    assert relative(run["weights"], one["weights"]) < 1e-3
