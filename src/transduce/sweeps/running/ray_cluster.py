"""A sweep on a Ray cluster: each run is a task, which Ray places and, if its node dies, moves.

Run folders, texts and prepared data are on a file system that all nodes share, under the same
names. A task that starts again finds its run's checkpoints there and resumes it. Ray decides what
computes where and when; this module only asks for resources and hears what tasks report.
"""

import contextlib
import os
import pickle
import socket
import threading
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from transduce.errors import ConfigError, InputError
from transduce.hardware.ray_connection import connect, living_nodes
from transduce.sweeps.plan import LOCK, SweepRun
from transduce.sweeps.running.at_once import FixedNumber, MeasuredNumber
from transduce.sweeps.running.machines import Worker
from transduce.sweeps.running.mailbox import Mailbox
from transduce.sweeps.running.worker import (
    Done,
    Failed,
    Message,
    Placed,
    PrepareJob,
    TrainJob,
    carry_out,
)

POLL_S = 0.5
MAX_RETRIES = 3
"""How often Ray starts a task again whose node or process has died."""
ALL = 1_000_000
"""All runs are handed to Ray at once: it lets them wait until there is room."""


class RayCluster:
    """A Ray cluster, found by its address.

    address: "ray" or "auto" for the cluster that runs on this machine, and "ray" starts one if
        there is none; "HOST:PORT" for that of another machine, of which this one must be a node;
        "ray://HOST:PORT" for a Ray Client server.
    at_once: how many runs share a GPU or, without GPUs, the cores of a node.
    """

    def __init__(self, address: str, at_once: int | None = None) -> None:
        connect(address)
        self.number: FixedNumber | MeasuredNumber = FixedNumber(ALL)
        self.threads = 1
        self._address, self._at_once = address, at_once or 1
        self._gpus = 0.0
        self._started = 0
        self._inboxes: dict[str, deque[Message]] = defaultdict(deque)
        self._mailbox = _start_mailbox()

    def settle(self, runs: Sequence[SweepRun]) -> None:
        """Decide the resources of each run: with others it fills a GPU, or the cores of a node."""
        wants_gpu = any(run.device != "cpu" for run in runs)
        nodes = [
            node["Resources"] for node in living_nodes() if node["Resources"].get("CPU", 0) >= 1
        ]
        with_gpu = [node for node in nodes if node.get("GPU", 0) >= 1] if wants_gpu else []
        named = [run for run in runs if run.device not in ("auto", "cpu")]
        if named and not with_gpu:
            raise ConfigError(
                f"row {named[0].variation!r}: run.device={named[0].device}, but no node of the "
                f"cluster has a GPU"
            )
        if not nodes:
            raise InputError(f"--on {self._address}: no node of the cluster offers a CPU")
        self._gpus = 1 / self._at_once if with_gpu else 0.0
        shares = [node["CPU"] / node.get("GPU", 1) for node in with_gpu] or [
            node["CPU"] for node in nodes
        ]
        self.threads = max(1, int(min(shares) / self._at_once))

    def slots(self) -> int:
        """Return for how many runs the nodes that are there now have room; at least one."""
        resources = [node["Resources"] for node in living_nodes()]
        room = (
            min(
                node.get("CPU", 0) / self.threads,
                node.get("GPU", 0) / self._gpus if self._gpus else ALL,
            )
            for node in resources
        )
        return max(1, sum(int(found + 1e-6) for found in room))

    def start(self, job: TrainJob | PrepareJob, log: Path) -> Worker:
        """Hand a job to Ray."""
        import ray

        self._started += 1
        name = str(self._started)
        task = ray.remote(
            num_cpus=self.threads,
            num_gpus=self._gpus,
            max_retries=MAX_RETRIES,
            max_calls=1,  # a process for each run: its memory is free afterwards
        )(work_on_node)
        result = task.remote(job, log.absolute(), Path.cwd(), name, self._mailbox)
        return RayTask(name, result, self._mailbox, self._inboxes[name])

    def wait(self, workers: Sequence[Worker]) -> None:
        """Wait for the end of a task, and fetch what all have reported."""
        import ray

        tasks = [worker for worker in workers if isinstance(worker, RayTask)]
        try:
            ended, _ = ray.wait([task.result for task in tasks], timeout=POLL_S)
            # What a task reported is in the mailbox before it ends, so this order loses nothing.
            for name, message in ray.get(self._mailbox.take.remote()):
                self._inboxes[name].append(pickle.loads(message))  # noqa: S301 - by our own tasks
        except (ray.exceptions.RayError, ConnectionError) as lost:  # the latter by Ray Client
            raise InputError(
                f"--on {self._address}: the connection to the cluster is lost; the same command "
                "goes on"
            ) from lost
        for task in tasks:
            task.has_ended = task.result in ended


class RayTask:
    """A job that Ray carries out."""

    def __init__(self, name: str, result: Any, mailbox: Any, inbox: deque[Message]) -> None:
        self.last: Done | Failed | None = None
        self.is_over = self.has_ended = False
        self.result = result  # a reference to what the task will return
        self._name, self._mailbox, self._inbox = name, mailbox, inbox

    def messages(self) -> Iterator[Message]:
        """Return what the task has reported since; at its end, how it ended."""
        while self._inbox:
            yield self._inbox.popleft()
        if self.has_ended:
            self.last, self.is_over = _outcome(self.result), True
            yield self.last

    def stop(self) -> None:
        """Ask the task to save a checkpoint and end."""
        self._mailbox.stop.remote(self._name)

    def terminate(self) -> None:
        """End the task at once, wherever it is."""
        import ray

        ray.cancel(self.result, force=True)

    def close(self) -> None:
        """End the task, if it has not ended yet."""
        if not self.is_over:
            self.terminate()


def work_on_node(
    job: TrainJob | PrepareJob, log: Path, place: Path, name: str, mailbox: Any
) -> Done | Failed:
    """Carry out a job: the task, in a process of its own on some node."""
    import ray

    machine = socket.gethostname()
    if unseen := _unseen(place, job.cache.parent):
        return Failed(
            f"{machine} does not see {unseen}: start the sweep in a folder that all nodes share, "
            "with --out in such a folder"
        )

    def report(message: Message) -> None:
        mailbox.put.remote(name, pickle.dumps(message))

    stop = threading.Event()
    threading.Thread(target=_listen, args=(mailbox, name, stop), daemon=True).start()
    report(Placed(machine))
    last = carry_out(job, report, stop.is_set, log)
    with contextlib.suppress(ray.exceptions.RayError):
        ray.get(mailbox.is_stopped.remote(name))  # calls are served in order: all is reported
    return last


def _unseen(place: Path, sweep: Path) -> Path | None:
    """Go to the folder of the command, to which names are relative; return what is not here."""
    try:
        os.chdir(place)
    except OSError:
        return place
    return None if (sweep / LOCK).exists() else sweep


def _listen(mailbox: Any, name: str, stop: threading.Event) -> None:
    import ray

    with contextlib.suppress(ray.exceptions.RayError):
        while not ray.get(mailbox.is_stopped.remote(name)):
            stop.wait(1.0)
        stop.set()


def _outcome(result: Any) -> Done | Failed:
    """Return how a task ended; one that Ray could not carry out has failed."""
    import ray

    try:
        last: Done | Failed = ray.get(result)
    except ray.exceptions.RayError as fault:
        lines = str(fault).split("\n")
        is_traceback = isinstance(fault, ray.exceptions.RayTaskError)
        return Failed(f"{type(fault).__name__}: {lines[-1 if is_traceback else 0]}")
    return last


def _start_mailbox() -> Any:
    """Start the actor on the node of this process: it lives as long as the sweep."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(num_cpus=0, scheduling_strategy=here)(Mailbox).remote()
