"""A sweep: its data is prepared once, then its runs compute, several at once."""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from transduce.data.formats.lines import read_lines
from transduce.errors import InputError, counted
from transduce.sweeps.file import SweepTest
from transduce.sweeps.plan import SweepPlan, SweepRun, selected_rows, write_plan
from transduce.sweeps.running.existing import (
    check_budgets,
    check_folder,
    check_same_settings,
    is_finished,
    locked_sweep,
)
from transduce.sweeps.running.machines import LocalMachine, Machines, Worker
from transduce.sweeps.running.recorded_epochs import epochs_of_others, recorded_epochs
from transduce.sweeps.running.status import RunPhase, RunStatus, SweepStatus
from transduce.sweeps.running.translations import SweepTranslation
from transduce.sweeps.running.worker import (
    DeviceMemory,
    Done,
    Failed,
    Message,
    PrepareJob,
    TrainJob,
)
from transduce.sweeps.searching.search import TrialSource, check_trials, names_of_trials
from transduce.training.progress import Preparing
from transduce.training.run.events import MemoryLowered, Stepped

MAX_ATTEMPTS = 2


@dataclass(frozen=True)
class SweepOutcome:
    """How a sweep ended."""

    plan: SweepPlan
    status: SweepStatus
    is_stopped: bool  # on request; the same command goes on

    @property
    def failed(self) -> list[RunStatus]:
        """The runs that failed in every attempt."""
        return [status for status in self.status.runs if status.phase == "failed"]


class SweepWatcher:
    """Is told what a sweep does; this one does nothing with it."""

    def preparing(self, event: Preparing) -> None:
        """Work on the data that all runs share."""

    def begun(self, status: SweepStatus, finished: int) -> None:
        """The runs begin; some were finished before."""

    def told(self, status: RunStatus, message: Message) -> None:
        """A run's process reports something."""

    def noted(self, text: str) -> None:
        """The user should know something about the whole."""

    def waited(self) -> None:
        """Some time has passed."""

    def should_stop(self) -> bool:
        """Whether the sweep is to stop."""
        return False


def run_sweep(
    plan: SweepPlan,
    *,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    trials: int | None = None,
    machines: Machines | None = None,
    watcher: SweepWatcher | None = None,
) -> SweepOutcome:
    """Compute the runs of a sweep that are not finished yet.

    only, skip: names of rows.
    trials: how many trials its search has in all; None: the sweep has no search.
    machines: where runs compute; None: on this machine.

    Wrong settings and files raise `ConfigError` or `InputError` before anything starts. A run that
    fails is tried once more, and does not stop the others.
    """
    watcher = watcher or SweepWatcher()
    machines = machines or LocalMachine(by_clock=plan.is_by_clock)
    search = check_trials(plan, trials)
    names = names_of_trials(trials or 0)
    wanted = selected_rows([*plan.rows, *names], only, skip)
    runs = [run for run in plan.runs if run.variation in wanted]
    machines.settle(runs or plan.runs[:1])
    _check_tests(plan.file.test)
    check_folder(plan.folder)
    with locked_sweep(plan.folder):
        source = None if search is None else TrialSource(plan, search, wanted)
        begun = source.begun if source else []
        check_same_settings([*runs, *begun], plan.cache)
        if not plan.is_in_epochs:
            check_budgets([*runs, *begun])
        epochs = recorded_epochs(plan, runs)
        if epochs is None:
            epochs = _prepare(plan, runs, watcher, machines)
        if epochs is None:
            return SweepOutcome(plan, SweepStatus([RunStatus(run) for run in runs]), True)
        plan = plan.with_epochs(epochs_of_others(plan, runs) | epochs).with_runs(begun)
        runs = [run for run in plan.runs if run.variation in wanted]
        translation = SweepTranslation.of(plan.file, plan.cache)
        status = SweepStatus([RunStatus(run, _phase(run, translation)) for run in runs])
        status.to_come = source.to_come if source else 0
        write_plan(plan)
        watcher.begun(status, status.count("finished", "pruned"))
        sweep = _Sweep(plan, translation, status, watcher, machines, source)
        sweep.compute()
    is_stopped = bool(status.count("waiting", "stopped") or status.to_come)
    return SweepOutcome(sweep.plan, status, is_stopped)


def _phase(run: SweepRun, translation: SweepTranslation) -> RunPhase:
    """Return what is left to do for a run."""
    if run.trial and run.pruned_file.exists():
        return "pruned"
    return "finished" if is_finished(run) and not translation.missing(run) else "waiting"


class _Sweep:
    """The runs that are computing, and those that wait."""

    def __init__(
        self,
        plan: SweepPlan,
        translation: SweepTranslation,
        status: SweepStatus,
        watcher: SweepWatcher,
        machines: Machines,
        source: TrialSource | None,
    ) -> None:
        self.plan = plan  # with the trials that have begun
        self._translation, self._status = translation, status
        self._watcher, self._machines, self._source = watcher, machines, source
        self._waiting = deque(one for one in status.runs if one.phase == "waiting")
        self._workers: list[tuple[RunStatus, Worker]] = []
        self._is_stopping = False

    def compute(self) -> None:
        """Compute until no run is left, or until it is to stop."""
        try:
            while self._workers or (not self._is_stopping and self._is_more_to_do()):
                if not self._is_stopping and self._watcher.should_stop():
                    self._stop()
                self._start_more()
                self._machines.wait([worker for _, worker in self._workers])
                for status, worker in list(self._workers):
                    self._receive(status, worker)
                self._watcher.waited()
        finally:
            for _, worker in self._workers:
                worker.close()

    def _is_more_to_do(self) -> bool:
        return bool(self._waiting or self._status.to_come)

    def _start_more(self) -> None:
        while not self._is_stopping and len(self._workers) < self._machines.number.limit:
            status = self._waiting.popleft() if self._waiting else self._next_trial()
            if status is None:
                return
            status.attempts += 1
            with suppress(OSError):
                status.run.fault_file.unlink(missing_ok=True)
            log = status.run.folder.with_name(f"{status.run.folder.name}.log")
            self._workers.append((status, self._machines.start(self._job(status.run), log)))
            self._note_running()

    def _job(self, run: SweepRun) -> TrainJob:
        job = TrainJob(run, self.plan.cache, self._translation, self._machines.threads)
        if not run.trial:
            return job
        budget = self.plan.file.budget if self.plan.is_in_epochs else None
        return replace(job, search=self.plan.file.search, budget=budget)

    def _next_trial(self) -> RunStatus | None:
        """Begin the next trial of a search once it could compute: what others reach decides it."""
        if self._source is None or not self._source.to_come:
            return None
        if len(self._workers) >= self._machines.slots():
            return None
        run = self._source.next()
        self._status.to_come = self._source.to_come
        if run is None:
            self._watcher.noted("the ranges of the search are used up: there are no more trials")
            return None
        self.plan = self.plan.with_runs([run])
        write_plan(self.plan)
        status = RunStatus(run)
        self._status.runs.append(status)
        return status

    def _receive(self, status: RunStatus, worker: Worker) -> None:
        for message in worker.messages():
            status.note(message, self._status.clock())
            match message:
                case Stepped():
                    self._machines.number.note_speed(status.run.name, message.tokens_per_s)
                case MemoryLowered():  # it goes on with smaller parts, but slower
                    self._machines.number.note_out_of_memory()
                case DeviceMemory():
                    self._machines.number.note_memory(message.free, message.total)
                case Done() | Failed():
                    self._end(status, message)
            self._watcher.told(status, message)
        if worker.is_over:
            self._workers.remove((status, worker))
            self._note_running()

    def _end(self, status: RunStatus, message: Done | Failed) -> None:
        """Note that a run's process is over: try a failed run once more, after the others."""
        if isinstance(message, Done):
            status.phase = "stopped" if message.is_stopped else "finished"
            if message.pruned:
                status.phase = "pruned"
            status.seconds = self._status.clock() - status.began
            status.fault = ""
        elif self._is_stopping:
            status.phase = "stopped"
        elif status.attempts < MAX_ATTEMPTS and not message.is_settings:
            status.phase = "waiting"
            self._waiting.append(status)
        else:
            status.phase = "failed"
            _write_fault(status)
        if isinstance(message, Failed) and message.is_memory:
            self._machines.number.note_out_of_memory()

    def _note_running(self) -> None:
        self._machines.number.note_running(
            frozenset(status.run.name for status, _ in self._workers)
        )

    def _stop(self) -> None:
        """Have all runs save a checkpoint and end; what is not training loses nothing."""
        self._is_stopping = True
        for status, worker in self._workers:
            if status.phase == "training":
                worker.stop()
            else:
                worker.terminate()


def _check_tests(tests: Sequence[SweepTest]) -> None:
    """Raise if the files of a test set are missing or do not match line by line."""
    for test in tests:
        src, tgt = (sum(1 for _ in read_lines(Path(name))) for name in (test.src, test.tgt))
        if src != tgt:
            raise InputError(
                f"test {test.name}: {test.src} has {counted(src, 'line')} but {test.tgt} has "
                f"{tgt:,}: they must match line by line"
            )


def _prepare(
    plan: SweepPlan, runs: Sequence[SweepRun], watcher: SweepWatcher, machines: Machines
) -> dict[str, float] | None:
    """Prepare the data of all rows in a process of its own; None: it was stopped."""
    job = PrepareJob(tuple(runs), plan.cache, plan.file.budget)
    worker = machines.start(job, plan.folder / "prepare.log")
    try:
        while not worker.is_over:
            if watcher.should_stop():
                return None
            machines.wait([worker])
            for message in worker.messages():
                if isinstance(message, Preparing):
                    watcher.preparing(message)
            watcher.waited()
    finally:
        worker.close()
    if isinstance(worker.last, Failed):
        raise InputError(worker.last.message)
    assert isinstance(worker.last, Done)
    return worker.last.epochs or {}


def _write_fault(status: RunStatus) -> None:
    with suppress(OSError):  # the disk may be full, which may be the fault
        status.run.fault_file.parent.mkdir(parents=True, exist_ok=True)
        status.run.fault_file.write_text(f"{status.fault}\n", encoding="utf-8")
