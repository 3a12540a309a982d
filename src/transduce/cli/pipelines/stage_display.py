"""The stages of a pipeline on the terminal: a bar for the current one, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

from transduce.cli.terminal.text_output import lasting_console
from transduce.cli.terminal.watch import Watch, watching
from transduce.cli.train import WITHOUT_BUDGET
from transduce.pipelines.watcher import PipelineWatcher

if TYPE_CHECKING:
    from transduce.training.progress import ProgressCallback

LINE_EVERY_S = 30
"""Without a terminal, a stage that takes long says how far it is at these intervals."""


class StageDisplay(PipelineWatcher):
    """Shows which stage is at work, and how far it is."""

    def __init__(self) -> None:
        self._console = lasting_console()
        self._stack = ExitStack()
        self._bar: Progress | None = None
        self._watch: Watch | None = None
        self._title, self._said_at = "", 0.0

    def stage(self, title: str, *, is_done: bool = False) -> None:
        """Say that a stage begins."""
        self.close()
        self._title, self._said_at = title, time.monotonic()
        if is_done:
            self.noted(f"{title}: done before")
        elif self._console.is_terminal:
            self._bar = self._new_bar()
        else:
            self.noted(title)

    def working(self, done: int, total: int) -> None:
        """Move the bar, or write a line from time to time."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=total or None)
            return
        now = time.monotonic()
        if now - self._said_at >= LINE_EVERY_S:
            self._said_at = now
            self.noted(f"{self._title}: {done:,}" + (f" of {total:,}" if total else ""))

    def training(self) -> "ProgressCallback":
        """Show a training run as `transduce train` does."""
        if self._bar is not None:
            self.close()
            self.noted(self._title)
        self._watch = self._stack.enter_context(watching(WITHOUT_BUDGET))
        return self._watch

    def noted(self, text: str) -> None:
        """Write a line above the progress."""
        if sys.stderr is not None:
            sys.stderr.write(f"{text}\n")

    def should_stop(self) -> bool:
        """Whether a signal asked a training run to stop."""
        return self._watch is not None and self._watch.should_stop()

    def stopped(self) -> None:
        """Say how to go on, below the last display; raise `typer.Exit` if a signal was caught."""
        try:
            self.close()
        finally:
            self.noted("Stopped. The same command goes on from here.")

    def close(self) -> None:
        """End the display of a stage; raise `typer.Exit` if a signal has stopped its training."""
        stack, self._stack = self._stack, ExitStack()
        self._bar = self._watch = None
        stack.close()

    def _new_bar(self) -> Progress:
        columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
        bar = self._stack.enter_context(Progress(*columns, console=self._console, transient=True))
        bar.add_task(self._title, total=None)
        return bar


@contextmanager
def showing_stages() -> Iterator[StageDisplay]:
    """Give a display of a pipeline; after Ctrl-C, say how to go on."""
    display = StageDisplay()
    try:
        yield display
    except KeyboardInterrupt:
        display.stopped()
        raise
    finally:
        display.close()
