"""One run of a sweep in a process of its own: it trains, then translates the test sets.

The process reports what happens through a pipe, stops when it is asked to, and ends by itself if
the process that started it is gone.
"""

import gc
import multiprocessing
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event as Flag
from threading import Thread

import torch

from transduce.data.prepare import Phase
from transduce.errors import ConfigError, DivergedError, TransduceError
from transduce.files.locks import locked
from transduce.hardware.allocator import keep_freed_memory
from transduce.sweeps.file import SweepBudget
from transduce.sweeps.plan import SweepRun, with_epochs
from transduce.sweeps.running.preparation import prepare_runs
from transduce.sweeps.running.translations import SweepTranslation
from transduce.sweeps.searching.pruning import TrialWatch, record_pruned
from transduce.sweeps.searching.ranges import SweepSearch
from transduce.training.loop import train
from transduce.training.progress import Preparing, Settled, Translated, Working
from transduce.training.run.events import Event, Started, Stepped
from transduce.training.run.folder import LOCK

STOP = "stop"
"""What the pipe brings to a run that is to stop."""

LOCK_WAIT_S = 120.0
"""A process whose sweep was killed releases its run folder within this time: on this machine within
a second, on another by the time-outs of Ray and of the file system that both share."""


@dataclass(frozen=True)
class TrainJob:
    """What the process of a run does."""

    run: SweepRun
    cache: Path
    translation: SweepTranslation
    threads: int  # for computing on the CPU
    search: SweepSearch | None = None  # that the run is a trial of
    budget: SweepBudget | None = None  # that the text turns into epochs first


@dataclass(frozen=True)
class PrepareJob:
    """What the process that prepares the data does."""

    runs: tuple[SweepRun, ...]
    cache: Path
    budget: SweepBudget | None


@dataclass(frozen=True)
class Placed:
    """The job has a process, on the machine of this name, and begins."""

    machine: str = ""  # "": this one


@dataclass(frozen=True)
class DeviceMemory:
    """The memory of the GPU that a run computes on, in bytes."""

    free: int
    total: int


@dataclass(frozen=True)
class Testing:
    """The run is trained; it translates the test sets."""


@dataclass(frozen=True)
class Done:
    """The job is done, or the run was stopped and can be resumed."""

    is_stopped: bool = False
    pruned: str = ""  # why a trial was stopped early
    epochs: dict[str, float] | None = None  # of a `PrepareJob`: by row


@dataclass(frozen=True)
class Failed:
    """The job failed."""

    message: str
    is_settings: bool = False  # a wrong setting, which fails again
    is_memory: bool = False  # the device has no more


Message = Event | Preparing | Working | Placed | DeviceMemory | Testing | Done | Failed
Report = Callable[[Message], None]


def train_run(job: TrainJob, report: Report, should_stop: Callable[[], bool]) -> Done:
    """Train one run, or resume it, and translate the test sets."""
    run, device = _with_epochs(job, report), "cpu"
    watch = None if job.search is None else TrialWatch(run, job.search)
    if watch is not None:
        watch.resume()
        if watch.reason:  # it was killed before that was recorded
            return _pruned(run, watch.reason)

    def progress(event: Event | Preparing | Settled | Working | Translated) -> None:
        nonlocal device
        if isinstance(event, Started):
            device = event.device
        if not isinstance(event, Settled | Translated):
            report(event)
        if watch is not None and not isinstance(event, Preparing | Settled | Working | Translated):
            watch.note(event)
        if isinstance(event, Stepped) and device.startswith("cuda"):
            report(DeviceMemory(*torch.cuda.mem_get_info(device)))

    outcome = train(
        out=run.folder,
        preset=run.preset,
        settings=run.settings,
        cache=job.cache,
        progress=progress,
        should_stop=lambda: should_stop() or (watch is not None and bool(watch.reason)),
    )
    if outcome.reason is None:
        reason = "" if watch is None else watch.reason
        return _pruned(run, reason) if reason else Done(is_stopped=True)
    report(Testing())
    if device.startswith("cuda"):
        gc.collect()  # CUDA graphs of the training step hold memory until then
        torch.cuda.empty_cache()  # for the runs beside this one
    job.translation.translate_missing(run, device=run.device)
    return Done()


def work(job: TrainJob | PrepareJob, pipe: Connection, log: Path) -> None:
    """Carry out a job: the main function of a process on this machine."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it, and asks this one to stop
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Thread(target=_end_with_parent, daemon=True).start()
    stop = Flag()
    Thread(target=_listen, args=(pipe, stop), daemon=True).start()
    pipe.send(Placed())
    last = carry_out(job, pipe.send, stop.is_set, log)
    with suppress(OSError):
        pipe.send(last)


def carry_out(
    job: TrainJob | PrepareJob, report: Report, should_stop: Callable[[], bool], log: Path
) -> Done | Failed:
    """Carry out a job in this process, which does nothing else, and return how it ended."""
    keep_freed_memory()
    warnings.simplefilter("ignore")
    try:
        with _printing_to(log):
            if isinstance(job, PrepareJob):
                return _prepare(job, report)
            torch.set_num_threads(job.threads)
            _wait_for_lock(job.run.folder)
            try:
                return train_run(job, report, should_stop)
            except DivergedError as diverged:
                if job.search is None:
                    raise
                return _pruned(job.run, str(diverged))
    except Exception as fault:  # noqa: BLE001 - whatever it is, only this run fails
        return _failure(fault, log)


def _with_epochs(job: TrainJob, report: Report) -> SweepRun:
    """Return the run with the epochs that a budget in tokens or operations means for it."""
    if job.budget is None:
        return job.run
    found = prepare_runs([job.run], job.cache, job.budget, _phases(report))
    return with_epochs(job.run, found.get(job.run.variation))


def _pruned(run: SweepRun, reason: str) -> Done:
    record_pruned(run, reason)
    return Done(pruned=reason)


def _prepare(job: PrepareJob, report: Report) -> Done:
    return Done(epochs=prepare_runs(job.runs, job.cache, job.budget, _phases(report)))


def _phases(report: Report) -> Phase:
    @contextmanager
    def phase(name: str) -> Iterator[Callable[[int, int], None]]:
        done, total = 0, 0

        def tell(now: int, of: int) -> None:
            nonlocal done, total
            done, total = now, of
            report(Preparing(name, now, of))

        tell(0, 0)
        yield tell
        report(Preparing(name, done, total, is_over=True))

    return phase


def _failure(fault: Exception, log: Path) -> Failed:
    """Say in one line what went wrong."""
    # CUDA's libraries report it as an error of their own: "CUBLAS_STATUS_ALLOC_FAILED".
    is_cuda = "out of memory" in str(fault) or "ALLOC_FAILED" in str(fault)
    if isinstance(fault, torch.OutOfMemoryError | MemoryError) or (
        isinstance(fault, RuntimeError) and is_cuda
    ):
        return Failed("out of memory", is_memory=True)
    if isinstance(fault, TransduceError):
        return Failed(str(fault), is_settings=isinstance(fault, ConfigError))
    first = next(iter(str(fault).splitlines()), "")
    return Failed(f"{type(fault).__name__}: {first} (the traceback is in {log})")


def _wait_for_lock(folder: Path) -> None:
    """Wait while a process of a killed sweep still holds the run folder."""
    until = time.monotonic() + LOCK_WAIT_S
    while (folder / LOCK).exists():
        try:
            with locked(folder / LOCK, wait=False):
                return
        except OSError:
            if time.monotonic() > until:
                return  # training says that the folder is locked
            time.sleep(0.1)


def _listen(pipe: Connection, stop: Flag) -> None:
    with suppress(EOFError, OSError):
        while pipe.recv() != STOP:
            pass
        stop.set()


def _end_with_parent() -> None:
    """End this process if its parent was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _printing_to(log: Path) -> Iterator[None]:
    """Write all that is printed to a file, which is removed if it stays empty."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", buffering=1, encoding="utf-8", errors="replace") as stream:
        for standard in (1, 2):
            os.dup2(stream.fileno(), standard)
        sys.stdout = sys.stderr = stream
        try:
            yield
        except Exception as fault:
            if not isinstance(fault, TransduceError):
                traceback.print_exc()
            raise
        finally:
            stream.flush()
            if os.fstat(stream.fileno()).st_size == 0:
                log.unlink(missing_ok=True)
