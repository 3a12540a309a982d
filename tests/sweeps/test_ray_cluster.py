"""A sweep on a Ray cluster: a node that dies has its runs resumed elsewhere."""

import contextlib
import importlib.util
import os
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from tests.command import Command, start
from tests.sweeps.small_sweeps import products, sweep_file, write_texts
from transduce.hardware import ray_connection
from transduce.models.model_files import checkpoint_folders
from transduce.sweeps.file import read_sweep_file
from transduce.sweeps.plan import make_plan
from transduce.sweeps.report import write_report
from transduce.sweeps.running import ray_cluster
from transduce.sweeps.running.machines import LocalMachine
from transduce.sweeps.running.runner import run_sweep
from transduce.sweeps.running.worker import Failed, PrepareJob
from transduce.training.run.events import Started
from transduce.training.run.journal import read_journal

STEPS = 72
CLIENT_PORT = 20_001
needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: the extra 'cluster'"
)
with_open_logs = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""Ray leaves the logs of a cluster's processes open."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of two runs, with texts that are named relative to the folder of the command."""
    folder = tmp_path_factory.mktemp("sweep")
    write_texts(folder)
    return sweep_file(folder / "s.yaml", Path(), budget={"steps": STEPS})


@pytest.fixture(scope="module")
def alone(file: Path) -> Path:
    """What this machine computes, in processes that have torch loaded already."""
    out = file.parent / "alone"
    with contextlib.chdir(file.parent):
        plan = make_plan(read_sweep_file(file), out)
        assert run_sweep(plan, machines=LocalMachine(2)).failed == []
        write_report(plan)
    assert len(products(out)) == 4
    return out


@pytest.fixture(scope="module")
def head() -> Iterator[Any]:
    """A node for the sweep's own process, which also listens for Ray Client."""
    from ray.cluster_utils import Cluster

    arguments = {
        "num_cpus": 0,
        "include_dashboard": False,
        "ray_client_server_port": CLIENT_PORT,
        "_system_config": {"worker_niceness": 0},  # else its processes wait for all others here
    }
    found = Cluster(initialize_head=True, head_node_args=arguments)
    yield found
    found.shutdown()


@pytest.fixture
def add_node(head: Any) -> Iterator[Callable[[int], Any]]:
    """Add nodes with so many CPUs, each of which is a group of processes, for one test."""
    added: list[Any] = []

    def add(cpus: int) -> Any:
        added.append(head.add_node(num_cpus=cpus))
        head.wait_for_nodes()
        return added[-1]

    yield add
    for node in added:
        if node in head.worker_nodes:
            head.remove_node(node)


def begin(file: Path, out: Path, *options: str) -> BaseProcess:
    log = out.with_suffix(".log")
    return start("sweep", file.name, "--out", out, *options, log=log, folder=file.parent)


def finish(process: BaseProcess, out: Path) -> str:
    process.join()
    log = out.with_suffix(".log").read_text(encoding="utf-8")
    assert process.exitcode == 0, log
    return log


def is_halfway(folder: Path) -> bool:
    """Whether a run has saved a step, and is not finished."""
    return max(checkpoint_folders(folder), default=0) > 0 and not (folder / "README.md").exists()


def run_on(node: Any) -> tuple[int, Path] | None:
    """The run that a node computes: a process below its raylet holds the lock of the folder."""
    [raylet] = node.all_processes["raylet"]
    below = Path(f"/proc/{raylet.process.pid}/task/{raylet.process.pid}/children")
    for pid in below.read_text().split():
        with contextlib.suppress(OSError):
            for opened in Path(f"/proc/{pid}/fd").iterdir():
                target = opened.readlink()
                if target.name == "lock" and target.parent.name.startswith("seed-"):
                    return int(pid), target.parent
    return None


def halt_halfway(node: Any) -> tuple[int, Path] | None:
    """Halt the process of a node that is in the middle of a run, so that it cannot finish it."""
    found = run_on(node)
    if found is None or not is_halfway(found[1]):
        return None
    os.kill(found[0], signal.SIGSTOP)
    if is_halfway(found[1]):
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
@with_open_logs
def test_a_node_that_dies_has_its_runs_resumed_on_another(
    file: Path, alone: Path, tmp_path: Path, head: Any, add_node: Callable[[int], Any]
) -> None:
    nodes = [add_node(1), add_node(1)]
    out = tmp_path / "out"
    process = begin(file, out, "--on", head.address)
    halted: dict[Any, tuple[int, Path]] = {}
    while process.is_alive() and not halted:
        halted = {node: found for node in nodes if (found := halt_halfway(node))}
        time.sleep(0.01)
    assert halted, finish(process, out)
    [(node, (pid, killed))] = halted.items()
    head.remove_node(node, allow_graceful=False)
    os.kill(pid, signal.SIGKILL)  # a node takes its processes along
    log = finish(process, out)
    events = read_journal(killed / "journal.jsonl")
    begun, resumed = [event.step for event in events if isinstance(event, Started)]
    assert begun == 0
    assert resumed >= 6, "from its checkpoint"
    assert "failed: " not in log, "which Ray may say, but not the sweep"
    assert products(out) == products(alone)
    assert results(out) == results(alone)


@needs_ray
@pytest.mark.exhaustive
@with_open_logs
def test_a_sweep_on_a_cluster_stops_on_request_and_goes_on(
    file: Path, alone: Path, tmp_path: Path, head: Any, add_node: Callable[[int], Any]
) -> None:
    add_node(2)
    out, options = tmp_path / "out", ("--on", head.address, "--at-once", "2", "--only", "base")
    process = begin(file, out, *options)
    while process.is_alive() and not any(map(is_halfway, out.glob("runs/*/*"))):
        time.sleep(0.01)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    process.join()
    log = out.with_suffix(".log").read_text(encoding="utf-8")
    assert process.exitcode == 128 + signal.SIGINT, log
    assert "stopped after step" in log
    assert "resumes after step" in finish(begin(file, out, *options), out)
    assert len(products(out)) == 2
    assert products(out).items() <= products(alone).items()


@needs_ray
@pytest.mark.exhaustive
@with_open_logs
def test_a_sweep_computes_through_a_ray_client_server(
    file: Path, alone: Path, tmp_path: Path, head: Any, add_node: Callable[[int], Any]
) -> None:
    add_node(1)
    out = tmp_path / "out"
    address = f"ray://{head.address.partition(':')[0]}:{CLIENT_PORT}"
    log = finish(begin(file, out, "--on", address, "--only", "base"), out)
    assert "base, seed 1: is on " in log
    assert len(products(out)) == 2
    assert products(out).items() <= products(alone).items()
