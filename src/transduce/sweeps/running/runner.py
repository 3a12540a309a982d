"""A sweep: its data is prepared once, then its runs compute, several at once."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from transduce.data.formats.lines import read_lines
from transduce.errors import InputError, TransduceError, counted
from transduce.files.errors import reporting_write_errors
from transduce.files.locks import locked
from transduce.sweeps.file import SweepTest
from transduce.sweeps.plan import LOCK, PLAN, SweepPlan, SweepRun, read_plan, write_plan
from transduce.sweeps.running.existing import (
    check_budgets,
    check_folder,
    check_same_settings,
    is_finished,
)
from transduce.sweeps.running.machines import LocalMachine, Machines, Worker
from transduce.sweeps.running.status import RunStatus, SweepStatus
from transduce.sweeps.running.translations import SweepTranslation
from transduce.sweeps.running.worker import (
    DeviceMemory,
    Done,
    Failed,
    Message,
    PrepareJob,
    TrainJob,
)
from transduce.training.progress import Preparing
from transduce.training.run.events import Stepped

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
    machines: Machines | None = None,
    watcher: SweepWatcher | None = None,
) -> SweepOutcome:
    """Compute the runs of a sweep that are not finished yet.

    only, skip: names of rows.
    machines: where runs compute; None: on this machine.

    Wrong settings and files raise `ConfigError` or `InputError` before anything starts. A run that
    fails is tried once more, and does not stop the others.
    """
    watcher = watcher or SweepWatcher()
    machines = machines or LocalMachine(by_clock=plan.is_by_clock)
    runs = plan.selected(only, skip)
    machines.settle(runs)
    _check_tests(plan.file.test)
    check_folder(plan.folder)
    with _locked(plan.folder):
        check_same_settings(runs, plan.cache)
        if not _is_in_epochs(plan):
            check_budgets(runs)
        translation = SweepTranslation.of(plan.file, plan.cache)
        epochs = _recorded_epochs(plan, runs)
        if epochs is None:
            epochs = _prepare(plan, runs, watcher, machines)
        if epochs is None:
            return SweepOutcome(plan, SweepStatus([RunStatus(run) for run in runs]), True)
        plan = plan.with_epochs(_epochs_of_others(plan, runs) | epochs)
        runs = plan.selected(only, skip)
        done = [is_finished(run) and not translation.missing(run) for run in runs]
        write_plan(plan)
        status = SweepStatus(
            [
                RunStatus(run, "finished" if was else "waiting")
                for run, was in zip(runs, done, strict=True)
            ]
        )
        watcher.begun(status, sum(done))
        _Sweep(plan, translation, status, watcher, machines).compute()
    return SweepOutcome(plan, status, bool(status.count("waiting", "stopped")))


class _Sweep:
    """The runs that are computing, and those that wait."""

    def __init__(
        self,
        plan: SweepPlan,
        translation: SweepTranslation,
        status: SweepStatus,
        watcher: SweepWatcher,
        machines: Machines,
    ) -> None:
        self._plan, self._translation, self._status = plan, translation, status
        self._watcher, self._machines = watcher, machines
        self._waiting = deque(one for one in status.runs if one.phase == "waiting")
        self._workers: list[tuple[RunStatus, Worker]] = []
        self._is_stopping = False

    def compute(self) -> None:
        """Compute until no run is left, or until it is to stop."""
        try:
            while self._workers or (self._waiting and not self._is_stopping):
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

    def _start_more(self) -> None:
        limit = self._machines.number.limit
        while self._waiting and not self._is_stopping and len(self._workers) < limit:
            status = self._waiting.popleft()
            status.attempts += 1
            job = TrainJob(status.run, self._plan.cache, self._translation, self._machines.threads)
            with suppress(OSError):
                status.run.fault_file.unlink(missing_ok=True)
            log = status.run.folder.with_name(f"{status.run.folder.name}.log")
            self._workers.append((status, self._machines.start(job, log)))
            self._note_running()

    def _receive(self, status: RunStatus, worker: Worker) -> None:
        for message in worker.messages():
            status.note(message, self._status.clock())
            match message:
                case Stepped():
                    self._machines.number.note_speed(status.run.name, message.tokens_per_s)
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


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the sweep's folder, so that no other command computes the same runs."""
    with reporting_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LOCK).touch()
    try:
        with locked(folder / LOCK, wait=False):
            yield
    except BlockingIOError:
        raise InputError(
            f"another process computes the sweep in {folder}: wait for it, or choose another --out"
        ) from None


def _recorded_epochs(plan: SweepPlan, runs: Sequence[SweepRun]) -> dict[str, float] | None:
    """Return the epochs of each row, as an earlier command found them; None: prepare the data.

    They are taken only if all runs are finished and are the same as then.
    """
    before = _plan_before(plan)
    if before is None:
        return None
    then = {run.name: run for run in before.runs}
    epochs: dict[str, float] = {}
    for run in runs:
        old = then.get(run.name)
        if old is None or old.preset != run.preset:
            return None
        if _is_in_epochs(plan):
            epochs[run.variation] = old.settings["training"]["epochs"]
    recorded = plan.with_epochs(epochs)
    names = {run.name for run in runs}
    same = [run for run in recorded.runs if run.name in names]
    if all(run.settings == then[run.name].settings and is_finished(run) for run in same):
        return epochs
    return None


def _epochs_of_others(plan: SweepPlan, runs: Sequence[SweepRun]) -> dict[str, float]:
    """Return the epochs, as an earlier command found them, of the rows that have none of `runs`."""
    before = _plan_before(plan)
    if before is None or not _is_in_epochs(plan):
        return {}
    selected = {run.variation for run in runs}
    return {
        run.variation: run.settings["training"]["epochs"]
        for run in before.runs
        if run.variation not in selected
    }


def _plan_before(plan: SweepPlan) -> SweepPlan | None:
    """Return the plan that an earlier command wrote; None: there is none with this budget."""
    if not (plan.folder / PLAN).exists():
        return None
    try:
        before = read_plan(plan.folder)
    except TransduceError:
        return None
    return before if before.file.budget == plan.file.budget else None


def _is_in_epochs(plan: SweepPlan) -> bool:
    """Whether the text decides how many epochs the budget means."""
    budget = plan.file.budget
    return budget is not None and (budget.tokens or budget.operations) is not None


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
