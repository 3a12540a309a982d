"""A sweep on a Ray cluster: a node that dies has its runs resumed elsewhere."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command import Command
from tests.sweeps.small_sweeps import products, sweep_file, write_texts
from transduce.hardware import ray_connection
from transduce.sweeps.file import read_sweep_file
from transduce.sweeps.plan import make_plan
from transduce.sweeps.running import ray_cluster
from transduce.sweeps.running.worker import Failed, PrepareJob
from transduce.training.run.events import Started
from transduce.training.run.journal import read_journal

STEPS = 120
CLIENT_PORT = 20_001
needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: the extra 'cluster'"
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of four runs, with texts that are named relative to the folder of the command."""
    folder = tmp_path_factory.mktemp("sweep")
    write_texts(folder)
    return sweep_file(folder / "s.yaml", Path(), budget={"steps": STEPS}, seeds=[1, 2])


def start_cluster(**more: Any) -> Any:
    """A node for the sweep's own process; others are added. Each is a group of processes."""
    from ray.cluster_utils import Cluster

    quick = {"worker_niceness": 0}  # else its processes wait for all others on this machine
    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": quick} | more
    return Cluster(initialize_head=True, head_node_args=head)


@pytest.fixture
def cluster() -> Iterator[Any]:
    found = start_cluster()
    yield found
    found.shutdown()


@pytest.fixture
def client_server() -> Iterator[Any]:
    """A cluster that also listens for Ray Client."""
    found = start_cluster(ray_client_server_port=CLIENT_PORT)
    yield found
    found.shutdown()


def start(file: Path, out: Path, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "transduce", "sweep", file.name, "--out", str(out), *options],
        cwd=file.parent,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def finish(file: Path, out: Path, *options: str) -> str:
    process = start(file, out, *options)
    _, log = process.communicate()
    assert process.returncode == 0, log
    return log


def wait_until(is_true: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    while process.poll() is None and not is_true():
        time.sleep(0.05)


def has_checkpoint(folder: Path) -> bool:
    """Whether a run has saved a step, and is not finished."""
    steps = [int(path.name.partition("-")[2]) for path in folder.glob("checkpoints/step-*")]
    return any(steps) and not (folder / "README.md").exists()


def run_on(node: Any) -> tuple[int, Path] | None:
    """The run that a node computes: a process below its raylet holds the lock of the folder."""
    [raylet] = node.all_processes["raylet"]
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            if f"\nPPid:\t{raylet.process.pid}\n" not in status.read_text():
                continue
            for opened in (status.parent / "fd").iterdir():
                target = opened.readlink()
                if target.name == "lock" and target.parent.name.startswith("seed-"):
                    return int(status.parent.name), target.parent
    return None


def frozen_in_training(node: Any) -> tuple[int, Path] | None:
    """Halt the process of a node that is in the middle of a run, so that it cannot finish it."""
    found = run_on(node)
    if found is None or not has_checkpoint(found[1]):
        return None
    os.kill(found[0], signal.SIGSTOP)
    if has_checkpoint(found[1]):
        return found
    os.kill(found[0], signal.SIGCONT)
    return None


def results(out: Path) -> str:
    table = (out / "results.md").read_text(encoding="utf-8").partition("## Runs")[0]
    return table.replace(f"# {out.name}\n", "")


def test_a_missing_extra_is_one_line(
    command: Command, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_connection, "find_spec", lambda _name: None)
    out = tmp_path / "out"
    told = command("sweep", file, "--out", out, "--on", "ray", folder=file.parent).mistake()
    assert told.startswith("--on ray: Ray is not installed: pip install 'transduce[cluster]'")
    assert not out.exists()


@needs_ray
@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("localhost:1", "--on localhost:1: cannot connect to the cluster: "),
        ("ray://localhost:1", "--on ray://localhost:1: cannot connect to the cluster: "),
        ("here", "--on here: write ray, auto, HOST:PORT or ray://HOST:PORT"),
    ],
)
def test_a_bad_address_is_one_line(
    command: Command, file: Path, tmp_path: Path, address: str, message: str
) -> None:
    out = tmp_path / "out"
    told = command("sweep", file, "--out", out, "--on", address, folder=file.parent).mistake()
    assert told.startswith(message)
    assert not out.exists()


@needs_ray
def test_a_node_that_does_not_share_the_folder_says_so(file: Path, tmp_path: Path) -> None:
    """The task itself, called in this process."""
    plan = make_plan(read_sweep_file(file), tmp_path / "out")
    job = PrepareJob(plan.runs, plan.cache, None)
    with contextlib.chdir(tmp_path):
        for place, unseen in ((tmp_path / "no", tmp_path / "no"), (tmp_path, plan.folder)):
            log = tmp_path / "log"
            failed = ray_cluster.work_on_node(job, log, place, name="1", mailbox=None)
            assert isinstance(failed, Failed)
            assert f" does not see {unseen}: start the sweep in a folder" in failed.message


@needs_ray
@pytest.mark.exhaustive
def test_a_node_that_dies_has_its_runs_resumed_on_another(
    file: Path, tmp_path: Path, cluster: Any
) -> None:
    one, other = (cluster.add_node(num_cpus=1) for _ in range(2))
    del other
    cluster.wait_for_nodes()
    out, alone = tmp_path / "out", tmp_path / "alone"
    process = start(file, out, "--on", cluster.address)
    halted = None
    while process.poll() is None and (halted := frozen_in_training(one)) is None:
        time.sleep(0.05)
    assert halted is not None, process.communicate()
    pid, killed = halted
    cluster.remove_node(one, allow_graceful=False)
    os.kill(pid, signal.SIGKILL)  # a node takes its processes along
    _, log = process.communicate()
    assert process.returncode == 0, log
    events = read_journal(killed / "journal.jsonl")
    begun, resumed = [event.step for event in events if isinstance(event, Started)]
    assert begun == 0
    assert resumed >= 6, "from its checkpoint"
    assert "failed" not in log
    finish(file, alone)
    assert len(products(alone)) == 8
    assert products(out) == products(alone)
    assert results(out) == results(alone)


@needs_ray
@pytest.mark.exhaustive
def test_a_sweep_on_a_cluster_stops_on_request_and_goes_on(
    file: Path, tmp_path: Path, cluster: Any
) -> None:
    cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    out, options = tmp_path / "out", ("--on", cluster.address, "--at-once", "2")
    process = start(file, out, *options)
    wait_until(lambda: any(map(has_checkpoint, out.glob("runs/*/*"))), process)
    os.kill(process.pid, signal.SIGINT)
    _, log = process.communicate()
    assert process.returncode == 128 + signal.SIGINT, log
    assert "stopped after step" in log
    assert "resumes after step" in finish(file, out, *options)
    finish(file, tmp_path / "alone")
    assert products(out) == products(tmp_path / "alone")


@needs_ray
@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Ray's open logs
def test_a_sweep_computes_through_a_ray_client_server(
    file: Path, tmp_path: Path, client_server: Any
) -> None:
    client_server.add_node(num_cpus=2)
    client_server.wait_for_nodes()
    out, alone, rows = tmp_path / "out", tmp_path / "alone", ("--only", "base")
    address = f"ray://{client_server.address.partition(':')[0]}:{CLIENT_PORT}"
    log = finish(file, out, "--on", address, "--at-once", "2", *rows)
    assert "base, seed 1: is on " in log
    finish(file, alone, *rows)
    assert len(products(alone)) == 4
    assert products(out) == products(alone)
