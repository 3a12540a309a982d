"""The display of a run: two live lines on a terminal, plain lines elsewhere."""

import itertools
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from transduce.errors import counted
from transduce.training.run.events import (
    Compiling,
    Event,
    Finished,
    MemoryLowered,
    RolledBack,
    Saved,
    Scored,
    Skipped,
    Started,
    Stepped,
    Warned,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Progress = Callable[[int, int], None]
"""Reports how much of a phase is done, of how much; 0 where the total is not known."""

Clock = Callable[[], float]

_FIRST_LINES_S = (1, 5, 15)  # soon after the start, so that the user sees that it works
_FIRST_WORK_S = (5, 15)  # work that takes less time than this needs no line of its own
_SAVED_SHOWN_S = 5
MOST_PARTS = 4
"""The scores of so many directions or files are shown one by one."""


class Drawn(Protocol):
    """A state that can be drawn below the lasting lines."""

    def draw(self) -> "RenderableType":
        """Draw it as it is now."""


class Display:
    """Shows events: lasting lines above, and below them the current state of the run."""

    def __init__(
        self,
        console: "Console | None" = None,
        *,
        every_s: float = 30,
        clock: Clock = time.monotonic,
    ) -> None:
        """Write to standard error by default; without a terminal, a line each `every_s` seconds."""
        from rich.live import Live

        assert every_s > 0, every_s
        self._stack = ExitStack()
        # While live lines are shown, all that others write to the terminal is captured.
        self._captures = console is None and sys.stderr is not None and sys.stderr.isatty()
        self._console = console or self._own_console()
        self._every_s, self._clock = every_s, clock
        # Colours may be forced for a file, but a live line makes no sense in one.
        self.moves = self._console.is_interactive and self._console.file.isatty()
        self._bottom: Drawn | None = None
        self._live = Live(
            console=self._console,
            get_renderable=self._draw_bottom,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=not self._captures,
        )
        self._training = _Training(clock)
        self._rhythm = Rhythm(every_s, clock)
        self._unshown: Stepped | None = None
        self._signature = ""
        self._work_rhythm = self._rhythm
        self._work_is_shown = False

    def _own_console(self) -> "Console":
        """Return a console on a copy of standard error, which stays when that is captured."""
        from rich.console import Console

        from transduce.cli.terminal.text_output import lasting_console

        if not self._captures:
            return lasting_console()  # the product of a run is its folder, not what it prints
        number = sys.stderr.fileno()
        copy = os.fdopen(os.dup(number), "w", encoding=sys.stderr.encoding, errors="replace")
        self._stack.enter_context(copy)
        if os.isatty(0):
            return Console(file=copy)  # which asks standard input for the size of the terminal
        columns, rows = os.get_terminal_size(number)
        return Console(file=copy, width=columns or None, height=rows or None)

    def __enter__(self) -> Self:
        from transduce.cli.terminal.capture import capturing_output

        if self.moves:
            if self._captures:
                self._stack.enter_context(capturing_output(self.say))
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._stack:
            self._live.stop()
            self.show_last_step()

    @property
    def height(self) -> int:
        """The lines of the terminal."""
        return self._console.height

    def say(self, text: str, *, style: str = "", wraps: bool = True) -> None:
        """Write a lasting line; its style is used only on a terminal.

        What is to be copied should not wrap at words: that would put line breaks into it.
        """
        from rich.text import Text

        printable = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
        line = Text(printable, style if self.moves else "")
        self._console.print(line, soft_wrap=not (self.moves and wraps))

    @contextmanager
    def phase(self, name: str) -> Iterator[Progress]:
        """Show a piece of work by its name; yields a function to report its progress with."""
        before, phase = self._bottom, _Phase(name, self._clock)
        self.show_below(phase)
        if not self.moves:
            self.say(name)
        rhythm = Rhythm(self._every_s, self._clock)

        def progress(done: int, total: int) -> None:
            phase.done, phase.total = done, total
            if not self.moves and done != total and rhythm.is_due():
                self.say(f"{name}: {phase.state()}")

        try:
            yield progress
        finally:
            self.show_below(before)
        self.say(f"{name}: {phase.outcome()}")

    def show_work(self, name: str, done: int, total: int, *, is_over: bool) -> None:
        """Show what is done between steps: `done` of `total` sentences, 0 where unknown."""
        if not self._training.is_at_work(name):
            self._work_rhythm = Rhythm(self._every_s, self._clock, first=_FIRST_WORK_S)
            self._work_is_shown = False
        work = self._training.set_work(name, done, total)
        if is_over:
            self._training.end_work()
        if self._live.is_started:
            self._live.refresh()
        elif is_over and self._work_is_shown:
            self.say(f"{name}: done in {duration(self._clock() - work.began)}")
        elif not is_over and self._work_rhythm.is_due():
            self._work_is_shown = True
            self.say(f"{name}: {work.state()}" if total else name)

    def show_last_step(self) -> None:
        """Write the newest numbers as a lasting line: a run may end at any moment."""
        if self._unshown is not None:
            self.say(self._training.line(self._unshown))
        self._unshown = None

    def __call__(self, event: Event) -> None:
        """Show an event."""
        self._training.note(event)
        match event:
            case Started():
                self.show_below(self._training)
                self._rhythm = Rhythm(self._every_s, self._clock)
            case Stepped():
                self._show_step(event)
            case Scored(metric=str(name), signature=signature) if signature != self._signature:
                self._signature = signature
                self.say(f"{name}: {signature}")
            case Finished():
                self.show_last_step()
                self.show_below(None)
        if not (self.moves and isinstance(event, Saved)):
            for line in lines(event):
                self.say(line, style=_style(event))

    def _show_step(self, event: Stepped) -> None:
        self._unshown = event
        if not self.moves and self._rhythm.is_due():
            self.show_last_step()

    def show_below(self, bottom: "Drawn | None") -> None:
        """Show the current state below the lasting lines, on a terminal."""
        self._bottom = bottom
        if self._live.is_started:
            self._live.refresh()

    def _draw_bottom(self) -> "RenderableType":
        from rich.console import Group

        return Group() if self._bottom is None else self._bottom.draw()


def lines(event: Event) -> list[str]:
    """Return the lasting lines about an event; a step has none."""
    at = f"step {event.step:,}"
    match event:
        case Started():
            return _started(event)
        case Compiling():
            return ["compiling the first step: this takes up to half a minute"]
        case Scored():
            scores = f"dev loss {event.loss:.3f}  perplexity {perplexity(event.perplexity)}"
            return [f"{at}  {scores}{_metric(event)}{'  * best' if event.best else ''}"]
        case Saved():
            return [f"{at}  saved"]
        case Skipped():
            what = counted(event.count, "step")
            return [f"{at}  skipped {what}: the loss spiked or was not finite ({event.batches})"]
        case RolledBack():
            return [f"{at}  rolled back to the weights of step {event.to:,} ({event.batches})"]
        case MemoryLowered():
            tokens = counted(event.tokens, "padded token")
            return [f"{at}  out of memory: now at most {tokens} at a time"]
        case Warned():
            return [event.message]
        case Finished():
            after = f"{at}, {duration(event.seconds)} of training"
            chosen = [f"weights {event.choice}"] if event.choice else []
            end = f"{after}; model folder: {event.weights}"
            return [f"finished: {event.reason}", *chosen, end]
        case _:
            return []


def _started(event: Started) -> list[str]:
    processes = "" if event.processes == 1 else f", {event.processes} processes"
    size = f"{counted(event.pairs, 'pair')}, {counted(event.parameters, 'parameter')}"
    found = [f"{size}, {event.device}, {event.precision}{processes}"]
    if event.step:
        found.append(f"resuming after step {event.step:,}, {duration(event.seconds)} of training")
    return found


def _metric(event: Scored) -> str:
    return "" if event.score is None else f"  {event.metric} {event.score:.2f}{_parts(event)}"


def _parts(event: Scored) -> str:
    """Describe the scores of directions or files: of many, the lowest and the highest."""
    found = sorted(event.parts.items(), key=lambda part: part[1])
    if len(found) > MOST_PARTS:
        found = [found[0], found[-1]]
        return f" ({len(event.parts)} parts: " + " to ".join(f"{n} {s:.2f}" for n, s in found) + ")"
    return f" ({', '.join(f'{name} {score:.2f}' for name, score in found)})" if found else ""


def _style(event: Event) -> str:
    match event:
        case Scored(best=True):
            return "green"
        case Skipped() | RolledBack() | MemoryLowered() | Warned():
            return "yellow"
        case Finished():
            return "bold"
        case _:
            return ""


def duration(seconds: float) -> str:
    """Format a time as 1:23:45."""
    if not math.isfinite(seconds):
        return "?"
    minutes, second = divmod(int(max(seconds, 0)), 60)
    return f"{minutes // 60:,}:{minutes % 60:02}:{second:02}"


def perplexity(value: float) -> str:
    """Format a perplexity, which may be huge at the start."""
    return f"{value:,.2f}" if value < 1e6 else f"{value:.2e}"


class Rhythm:
    """Decides when the next plain line is due: soon at first, then at even intervals."""

    def __init__(
        self, every_s: float, clock: Clock, *, first: tuple[int, ...] = _FIRST_LINES_S
    ) -> None:
        """A line is due at the `first` seconds, and then each `every_s` seconds."""
        early = (moment for moment in first if moment < every_s)
        self._moments = itertools.chain(early, itertools.count(every_s, every_s))
        self._clock, self._began = clock, clock()
        self._next = next(self._moments)

    def is_due(self) -> bool:
        """Whether a line is due; asked again, the next one is not yet."""
        elapsed = self._clock() - self._began
        due = self._next <= elapsed
        while self._next <= elapsed:
            self._next = next(self._moments)
        return due


@dataclass
class _Phase:
    """A piece of work before the training, or between its steps."""

    name: str
    clock: Clock
    done: int = 0
    total: int = 0
    unit: str = ""
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    def state(self) -> str:
        if self.unit and self.total:
            return f"{self.done:,} of {self.total:,} {self.unit}"
        share = self.done / max(self.total, 1)
        return f"{share:.0%} of {self.total:,}" if self.total else f"{self.done:,}"

    def outcome(self) -> str:
        took = duration(self.clock() - self.began)
        return f"{self.done:,} in {took}" if self.done else f"done in {took}"

    def draw(self) -> "RenderableType":
        state = self.state() if self.done or (self.unit and self.total) else ""
        share = self.done / self.total if self.total else None
        return _bar(f"{self.name}  ", share, f"  {state}  {duration(self.clock() - self.began)}")


class _Training:
    """The current state of the training."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_at, self._seconds_before = clock(), 0.0
        self._first: tuple[float, float] | None = (
            None  # time and share done at this session's start
        )
        self._ends_at: float | None = None
        self._step: Stepped | None = None
        self._score: Scored | None = None
        self._saved_at = float("-inf")
        self._work: _Phase | None = None  # between steps

    def is_at_work(self, name: str) -> bool:
        return self._work is not None and self._work.name == name

    def set_work(self, name: str, done: int, total: int) -> _Phase:
        if self._work is None or self._work.name != name:
            self._work = _Phase(name, self._clock, unit="sentences")
        self._work.done, self._work.total = done, total
        return self._work

    def end_work(self) -> None:
        self._work = None

    def note(self, event: Event) -> None:
        match event:
            case Started():
                self._began_at, self._seconds_before = self._clock(), event.seconds
                self._first = None
            case Stepped():
                self._step = event
                self._estimate(event.share_done)
            case Scored():
                self._score = event
            case Saved():
                self._saved_at = self._clock()

    def _estimate(self, share: float) -> None:
        """Estimate the end from this session alone: the machine may have changed."""
        now = self._clock()
        self._first = self._first or (now, share)
        began_at, began_share = self._first
        made = share - began_share
        self._ends_at = now + (now - began_at) / made * (1 - share) if made > 0 else None

    def line(self, event: Stepped) -> str:
        """Format a step as one plain line of about 80 characters at most."""
        share = f"{event.share_done:4.0%}  " if event.share_done else ""
        return f"{share}{duration(event.seconds)}  {_numbers(event)} tok/s"

    def draw(self) -> "RenderableType":
        from rich.console import Group
        from rich.text import Text

        share = self._step.share_done if self._step else 0.0
        parts = [f"{share:.1%}" if share else "", self._elapsed(), self._left(), self._dev()]
        bar = _bar("", share or None, "".join(f"  {part}" for part in parts if part))
        if self._work is not None:
            return Group(bar, self._work.draw())
        numbers = (
            f"{_numbers(self._step)} tokens/s" if self._step else "waiting for the first steps"
        )
        saved = "  saved" if self._clock() - self._saved_at < _SAVED_SHOWN_S else ""
        return Group(bar, Text(numbers + saved, no_wrap=True, overflow="ellipsis"))

    def _elapsed(self) -> str:
        return duration(self._seconds_before + self._clock() - self._began_at)

    def _left(self) -> str:
        return "" if self._ends_at is None else f"{duration(self._ends_at - self._clock())} left"

    def _dev(self) -> str:
        if self._score is None:
            return ""
        return f"dev {self._score.loss:.3f}{_metric(self._score)}"


def _numbers(event: Stepped) -> str:
    epoch = event.epoch - 1 + event.epoch_share
    digits = max(3 - len(str(int(epoch))), 0)
    return (
        f"step {event.step:,}  epoch {epoch:.{digits}f}  loss {event.loss:.3f}"
        f"  lr {event.learning_rate:.2e}  {event.tokens_per_s:,.0f}"
    )


def _bar(before: str, share: float | None, after: str) -> "RenderableType":
    """Draw a bar that fills the space between two texts; without a share it pulses."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    row = Table.grid(expand=True)
    row.add_column(no_wrap=True)
    row.add_column(ratio=1)
    row.add_column(no_wrap=True)
    row.add_row(
        before, ProgressBar(total=None if share is None else 1, completed=share or 0), after
    )
    return row
