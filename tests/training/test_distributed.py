"""Several processes over Gloo, started by torchrun as a user would."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


def launched(
    folder: Path, processes: int, *arguments: str, torchrun: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    program = ["tests.training.many", str(folder), *arguments]
    alone = [sys.executable, "-m", *program]
    many = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    many += ["--nproc-per-node", str(processes), *torchrun, "-m", *program]
    return subprocess.run(
        alone if processes == 1 else many, cwd=ROOT, capture_output=True, text=True, check=False
    )


def result(folder: Path, rank: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"rank{rank}.json").read_text())
    return found


def relative(a: list[float], b: list[float]) -> float:
    return float(np.linalg.norm(np.subtract(a, b)) / np.linalg.norm(b))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("alone")
    done = launched(folder, 1)
    assert done.returncode == 0, done.stderr
    return result(folder)


def test_two_processes_compute_what_one_does(alone: dict[str, Any], tmp_path: Path) -> None:
    done = launched(tmp_path, 2)
    assert done.returncode == 0, done.stderr
    together, second = result(tmp_path), result(tmp_path, rank=1)
    assert together["weights"] == second["weights"], "ranks agree to the bit"
    assert [step for step, _ in together["losses"]] == [step for step, _ in alone["losses"]]
    for (_, one), (_, two) in zip(alone["losses"], together["losses"], strict=True):
        assert two == pytest.approx(one, rel=1e-4)


def test_gradients_are_the_same_whether_batches_are_cut_or_dealt(tmp_path: Path) -> None:
    """Two batches a step: one process takes both, two take one each, three have to cut one."""
    arguments = ("--steps", "1", "--accumulate", "2")
    for processes in (1, 2, 3):
        done = launched(tmp_path / str(processes), processes, *arguments)
        assert done.returncode == 0, done.stderr
    one, *more = (result(tmp_path / str(processes)) for processes in (1, 2, 3))
    for many in more:
        assert relative(many["gradient"], one["gradient"]) < 1e-5


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_another_number_of_processes_goes_on(
    before: int, after: int, alone: dict[str, Any], tmp_path: Path
) -> None:
    """That every sentence is taken once is shown in tests/data; here that the losses go on."""
    stopped = launched(tmp_path, before, "--stop-after", "13")
    assert stopped.returncode == 0, stopped.stderr
    done = launched(tmp_path, after)
    assert done.returncode == 0, done.stderr
    parts = result(tmp_path)
    assert [step for step, _ in parts["losses"]] == [20, 20]
    assert parts["losses"][-1][1] == pytest.approx(alone["losses"][-1][1], rel=1e-4)
    assert relative(parts["weights"], alone["weights"]) < 1e-3


@pytest.mark.parametrize(
    ("how", "named"), [("die", "rank      : 1"), ("hang", "Rank 1 failed to pass")]
)
def test_a_lost_process_ends_the_run_within_its_time_out(
    how: str, named: str, tmp_path: Path
) -> None:
    start = time.monotonic()
    done = launched(tmp_path, 2, "--fail", how, "--timeout", "5")
    assert done.returncode != 0
    assert time.monotonic() - start < 60
    assert named in done.stderr
    if how == "hang":  # of one that dies, torchrun tells, and may end the others before they can
        assert "run the same command again" in done.stderr


def test_torchruns_restart_goes_on_from_the_checkpoint(
    alone: dict[str, Any], tmp_path: Path
) -> None:
    restart = ("--max-restarts", "1")
    done = launched(tmp_path, 2, "--fail", "die", "--timeout", "20", torchrun=restart)
    assert done.returncode == 0, done.stderr
    run = result(tmp_path)
    assert run["losses"][0][0] == 20, "the second try begins after the checkpoint of step 10"
    assert relative(run["weights"], alone["weights"]) < 1e-3
