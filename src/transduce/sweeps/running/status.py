"""Where each run of a sweep stands, and how long the whole will still take."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from transduce.sweeps.plan import SweepRun
from transduce.sweeps.running.worker import Failed, Message, Placed, Testing
from transduce.training.progress import Preparing, Working
from transduce.training.run.events import Finished, Scored, Started, Stepped

RunPhase = Literal[
    "waiting", "starting", "training", "testing", "finished", "pruned", "failed", "stopped"
]
RUNNING: tuple[RunPhase, ...] = ("starting", "training", "testing")


@dataclass
class RunStatus:
    """Where one run stands."""

    run: SweepRun
    phase: RunPhase = "waiting"
    attempts: int = 0  # in this session
    work: str = ""  # what is done now besides steps, such as scoring
    step: int = 0
    share: float = 0.0  # of the budget
    tokens_per_s: float = 0.0
    best: Scored | Finished | None = None  # at the end, of the weights that the run keeps
    fault: str = ""  # of the last attempt
    began: float = 0.0  # the last attempt, by the clock
    seconds: float = 0.0  # that finishing it took in this session; 0: not finished in it
    first: tuple[float, float] | None = None  # time and share of this attempt's first report

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens to this run."""
        return self.phase in ("finished", "pruned", "failed", "stopped")

    def note(self, message: Message, now: float) -> None:
        """Note what the process of the run reports."""
        match message:
            case Placed():
                self.phase, self.began, self.first, self.work = "starting", now, None, ""
            case Started():
                self.phase, self.step = "training", message.step
            case Stepped():
                self.phase, self.step, self.share = "training", message.step, message.share_done
                self.tokens_per_s = message.tokens_per_s
                self.first = self.first or (now, message.share_done)
            case Scored() if message.best:
                self.best = message
            case Preparing(name=name, is_over=is_over) | Working(name=name, is_over=is_over):
                self.work = "" if is_over else name
            case Testing():
                self.phase, self.work = "testing", ""
            case Finished():
                self.share = 1.0
                self.best = self.best if message.loss is None else message
            case Failed():
                self.fault = message.message

    def seconds_left(self, now: float) -> float | None:
        """Estimate how long a run that is computing will still take; None: not known yet."""
        if self.share >= 1:
            return 0.0
        if self.first is None:
            return None
        made = self.share - self.first[1]
        return (now - self.first[0]) / made * (1 - self.share) if made > 0 else None


@dataclass
class SweepStatus:
    """Where all runs stand."""

    runs: list[RunStatus]
    to_come: int = 0  # trials of a search that have not begun
    clock: Callable[[], float] = field(default=time.monotonic)

    @property
    def total(self) -> int:
        """The number of all runs, begun or not."""
        return len(self.runs) + self.to_come

    def count(self, *phases: RunPhase) -> int:
        """Count the runs in these phases."""
        return sum(status.phase in phases for status in self.runs)

    def seconds_left(self) -> float | None:
        """Estimate how long all runs will still take, as many at once as now; None: unknown.

        Runs that have not begun take as long as the others on average.
        """
        now = self.clock()
        running = [status for status in self.runs if status.phase in RUNNING]
        rests = [(status, status.seconds_left(now)) for status in running]
        known = [now - status.began + rest for status, rest in rests if rest is not None]
        known += [status.seconds for status in self.runs if status.seconds]
        if not known or not running:
            return None
        usual = statistics.mean(known)
        left = [max(usual - (now - s.began), 0.0) if rest is None else rest for s, rest in rests]
        total = sum(left) + usual * (self.count("waiting") + self.to_come)
        return max(total / len(running), *left, 0.0)
