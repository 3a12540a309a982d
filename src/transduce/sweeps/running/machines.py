"""Where the runs of a sweep compute: this machine, or another engine that has the same methods."""

import os
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Protocol

import torch

from transduce.hardware.devices import choose_device
from transduce.sweeps.plan import SweepRun, naming_row
from transduce.sweeps.running.at_once import FixedNumber, MeasuredNumber
from transduce.sweeps.running.processes import WorkerProcess
from transduce.sweeps.running.worker import Done, Failed, Message, PrepareJob, TrainJob

POLL_S = 0.2
GPU_RUNS = 4
"""Runs on a GPU get the share of the CPU's cores that so many at once would have."""


class Worker(Protocol):
    """A process that carries out a job, wherever it is."""

    last: Done | Failed | None
    is_over: bool

    def messages(self) -> Iterator[Message]:
        """Return what the process has reported since; at its end, how it ended."""
        ...

    def stop(self) -> None:
        """Ask the process to save a checkpoint and end."""
        ...

    def terminate(self) -> None:
        """End the process at once; `messages` then says that it is over."""
        ...

    def close(self) -> None:
        """End the process, if it has not ended yet, and forget it."""
        ...


class Machines(Protocol):
    """Starts the processes of a sweep."""

    number: FixedNumber | MeasuredNumber  # of processes at once
    threads: int  # of each process, for computing on the CPU

    def settle(self, runs: Sequence[SweepRun]) -> None:
        """Decide what each run may use; raise if one names a device that is not there."""
        ...

    def slots(self) -> int:
        """Return how many jobs can compute at once; others would wait for a place."""
        ...

    def start(self, job: TrainJob | PrepareJob, log: Path) -> Worker:
        """Start a job; what its process prints goes to `log`."""
        ...

    def wait(self, workers: Sequence[Worker]) -> None:
        """Wait a moment, or until one of the workers has something to report."""
        ...


class LocalMachine:
    """The machine of this process, with a process for each run.

    at_once: how many runs compute at once; None: one on the CPU, on a GPU as many as its memory
        and a measured gain in total speed allow.
    by_clock: whether minutes end the runs. Those that share a device do less in a minute, so by
        default each has it for itself.
    """

    def __init__(self, at_once: int | None = None, *, by_clock: bool = False) -> None:
        self.number: FixedNumber | MeasuredNumber = FixedNumber(at_once or 1)
        self.threads = 1
        self._at_once, self._by_clock, self._on_gpu = at_once, by_clock, False

    def settle(self, runs: Sequence[SweepRun]) -> None:
        """Decide how many runs compute at once, and with how many threads."""
        self._on_gpu = _uses_gpu(runs)
        if self._at_once is None and self._on_gpu and not self._by_clock:
            self.number = MeasuredNumber(os.cpu_count() or 1)
        # All together use the cores once.
        usual = GPU_RUNS if self._on_gpu else 1
        self.threads = max(1, torch.get_num_threads() // (self._at_once or usual))

    def slots(self) -> int:
        """Return how many runs compute at once."""
        return self.number.limit

    def start(self, job: TrainJob | PrepareJob, log: Path) -> Worker:
        """Start a process."""
        return WorkerProcess(job, log, on_gpu=self._on_gpu)

    def wait(self, workers: Sequence[Worker]) -> None:
        """Wait for a message through one of the pipes."""
        pipes = [worker.pipe for worker in workers if isinstance(worker, WorkerProcess)]
        if not wait(pipes, timeout=POLL_S) and not pipes:
            time.sleep(POLL_S)


def _uses_gpu(runs: Sequence[SweepRun]) -> bool:
    found = False
    for run in runs:
        with naming_row(run.variation):
            device = choose_device(run.device, option="run.device")
            found |= device.type != "cpu"
    return found
