"""A sweep on the terminal: a line for each run while they compute, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from transduce.cli.terminal.train_display import Display, Rhythm, duration, lines
from transduce.cli.terminal.watch import catching_signals
from transduce.errors import counted
from transduce.sweeps.running.runner import SweepWatcher
from transduce.sweeps.running.status import RUNNING, RunStatus, SweepStatus
from transduce.sweeps.running.worker import Done, Failed, Message, Placed
from transduce.training.progress import Preparing
from transduce.training.run.events import (
    MemoryLowered,
    RolledBack,
    Scored,
    Skipped,
    Started,
    Warned,
)

if TYPE_CHECKING:
    from types import FrameType

    from rich.console import RenderableType

Clock = Callable[[], float]
_OTHER_LINES = 6
"""Lines of the terminal that are left for what is written above the runs."""


@contextmanager
def watching_sweep() -> "Iterator[SweepDisplay]":
    """Show a sweep, and treat Ctrl-C as a request to stop; a second one ends it at once."""
    with Display() as display:
        shown = SweepDisplay(display)
        with catching_signals(shown.catch):
            yield shown


class SweepDisplay(SweepWatcher):
    """Shows what the runs of a sweep do."""

    def __init__(
        self, display: Display, *, every_s: float = 30, clock: Clock = time.monotonic
    ) -> None:
        """Without a terminal, the state of the whole is a line each `every_s` seconds."""
        self.caught = 0  # the number of the signal that asks to stop; 0: none
        self._display = display
        self._rhythm = Rhythm(every_s, clock)
        self._every_s, self._clock = every_s, clock
        self._status: SweepStatus | None = None
        self._phases: dict[str, tuple[ExitStack, Callable[[int, int], None]]] = {}

    def catch(self, number: int, _frame: "FrameType | None") -> None:
        """Handle a signal."""
        if self.caught:
            raise KeyboardInterrupt
        self.caught = number

    def should_stop(self) -> bool:
        """Whether a signal asked the sweep to stop."""
        return bool(self.caught)

    def preparing(self, event: Preparing) -> None:
        """Show the work on the data that all runs share."""
        if event.name not in self._phases:
            shown = ExitStack()
            self._phases[event.name] = shown, shown.enter_context(self._display.phase(event.name))
        shown, progress = self._phases[event.name]
        progress(event.done, event.total)
        if event.is_over:
            del self._phases[event.name]
            shown.close()

    def begun(self, status: SweepStatus, finished: int) -> None:
        """Say how many runs there are, and show them from now on."""
        self._status = status
        before = f", {finished:,} finished before" if finished else ""
        self.say(f"{counted(status.total, 'run')}{before}")
        self._rhythm = Rhythm(self._every_s, self._clock)
        self._display.show_below(self)

    def told(self, status: RunStatus, message: Message) -> None:
        """Write what should last: a run's start and end, and what the user should know."""
        name = status.run.name
        for line in self._lines(status, message):
            self.say(f"{name}: {line}", style=_style(status, message))

    def noted(self, text: str) -> None:
        """Write what the user should know."""
        self.say(text)

    def waited(self) -> None:
        """Without a terminal, write now and then how far the whole is."""
        if not self._display.moves and self._status and self._rhythm.is_due():
            for status in self._status.runs:
                if status.phase in RUNNING:
                    self.say(f"  {status.run.name}: {state_of(status)}")
            self.say(f"  {summary(self._status)}")

    def say(self, text: str, *, style: str = "") -> None:
        """Write a lasting line."""
        self._display.say(text, style=style)

    def end(self) -> None:
        """Remove the lines of the runs."""
        self._display.show_below(None)

    def _lines(self, status: RunStatus, message: Message) -> Iterator[str]:
        match message:
            case Placed(machine=machine) if machine:
                yield f"is on {machine}"
            case Started():
                again = " again" if status.attempts > 1 else ""
                after = f" after step {message.step:,}" if message.step else ""
                yield f"{'resumes' if message.step else 'starts'}{again}{after}"
            case Scored() if self._display.moves:
                pass  # its line shows the best score
            case Scored() | Skipped() | RolledBack() | MemoryLowered() | Warned():
                yield from lines(message)
            case Done(pruned=reason) if reason:
                yield reason
            case Done(is_stopped=False):
                yield f"finished in {duration(status.seconds)}{_best(status, ', ')}"
            case Done():
                yield f"stopped after step {status.step:,}"
            case Failed() if not self.caught:
                again = "; it is tried once more" if status.phase == "waiting" else ""
                yield f"failed: {message.message}{again}"

    def draw(self) -> "RenderableType":
        """Draw a line for each run, as far as the terminal has room, and one for the whole."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        assert self._status is not None
        table = Table.grid(expand=True, padding=(0, 1))
        table.add_column(no_wrap=True, max_width=40)
        table.add_column(ratio=1)
        table.add_column(no_wrap=True, max_width=60, overflow="ellipsis")
        for status in _most_important(self._status.runs, self._display.height - _OTHER_LINES):
            share = 1.0 if status.phase == "finished" else status.share
            bar = ProgressBar(total=1, completed=share)
            table.add_row(
                Text(status.run.name), bar, Text(state_of(status), _COLOURS[status.phase])
            )
        return Group(table, Text(summary(self._status), no_wrap=True, overflow="ellipsis"))


_COLOURS = {
    "waiting": "dim",
    "starting": "",
    "training": "",
    "testing": "",
    "finished": "green",
    "pruned": "dim",
    "failed": "red",
    "stopped": "yellow",
}


def summary(status: SweepStatus) -> str:
    """Say in one line how far a sweep is."""
    done, computing = status.count("finished"), status.count(*RUNNING)
    parts = [f"{done:,} of {counted(status.total, 'run')} finished", f"{computing:,} computing"]
    for phase in ("pruned", "failed"):
        parts += [f"{count:,} {phase}"] if (count := status.count(phase)) else []
    left = status.seconds_left()
    parts += [f"about {duration(left)} left"] if left is not None else []
    return ", ".join(parts)


def state_of(status: RunStatus) -> str:
    """Describe where a run stands: `40%  step 800  BLEU 12.30`."""
    if status.phase == "failed":
        return f"failed: {status.fault}"
    if status.phase == "pruned":
        return f"pruned  step {status.step:,}{_best(status, '  ')}" if status.step else "pruned"
    if status.phase not in ("training", "finished"):
        words = {"testing": "translating the test sets", "starting": status.work or "starting"}
        return words.get(status.phase, status.phase)
    is_known = status.phase == "finished" or status.first is not None  # how much is done
    share = "finished" if status.phase == "finished" else f"{status.share:4.0%}"
    parts = [share] if is_known else []
    parts += [f"step {status.step:,}"] if status.step or not is_known else []
    parts += [status.work] if status.work else []
    return "  ".join(parts) + _best(status, "  ")


def _best(status: RunStatus, before: str) -> str:
    best = status.best
    if best is None:
        return ""
    if best.score is None:
        return "" if best.loss is None else f"{before}dev loss {best.loss:.3f}"
    return f"{before}dev {best.metric} {best.score:.2f}"


def _style(status: RunStatus, message: Message) -> str:
    match message:
        case Failed():
            return "yellow" if status.phase == "waiting" else "red"
        case Done(pruned=reason) if reason:
            return "dim"
        case Done(is_stopped=False):
            return "green"
        case Skipped() | RolledBack() | MemoryLowered() | Warned():
            return "yellow"
        case _:
            return ""


def _most_important(runs: Sequence[RunStatus], most: int) -> list[RunStatus]:
    """Return the runs to show in order: if there are too many, rather those that compute."""
    order = (
        *("training", "testing", "starting", "failed", "waiting", "stopped"),
        *("finished", "pruned"),
    )
    ranked = sorted(range(len(runs)), key=lambda number: order.index(runs[number].phase))
    return [runs[number] for number in sorted(ranked[: max(most, 1)])]
