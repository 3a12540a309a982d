"""How far a text is that is translated in parts: one line for all of it, on a terminal."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

from transduce.bulk.translate import BulkWatcher
from transduce.bulk.workers import OutputRecord
from transduce.cli.terminal.notes import Notes
from transduce.cli.terminal.text_input import TextInput
from transduce.errors import counted


class BulkDisplay(BulkWatcher):
    """Shows how much of the whole text is translated, and notes on lines."""

    def __init__(self, folder: Path, notes: Notes, progress: Progress) -> None:
        self._folder, self._notes, self._progress = folder, notes, progress
        self._task = progress.add_task("translating", total=None)
        self.in_parts = self.total = 0

    def begun(self, *, before: int, total: int, changes: Sequence[str]) -> None:
        """Say what was done before."""
        self.in_parts, self.total = before, total
        for change in changes:
            self.noted(f"{self._folder} was begun with {change}: going on with it")
        if before:
            were = counted(total, "line was", "lines were")
            self.noted(f"{before:,} of {were} translated before: going on from there")
        self._progress.update(self._task, total=total, completed=before)

    def translated(self, line: OutputRecord) -> None:
        """Count a line, and write what is unusual about it."""
        self._notes.add(line.number, line.note, line.script)
        self._progress.advance(self._task)

    def written(self, *, lines: int) -> None:
        """Count the lines of a part."""
        self.in_parts += lines

    def noted(self, text: str) -> None:
        """Write a line above the progress."""
        if sys.stderr is not None:
            sys.stderr.write(f"{text}\n")


@contextmanager
def watching_parts(folder: Path, lines: TextInput, *, jsonl: bool) -> Iterator[BulkDisplay]:
    """Give a display of the whole; after Ctrl-C, say what is done."""
    console = Console(stderr=True)
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    notes = Notes(lines, jsonl=jsonl)
    with (
        Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        ) as progress,
        notes.counting(),
    ):
        display = BulkDisplay(folder, notes, progress)
        try:
            yield display
        except KeyboardInterrupt:
            if display.in_parts:
                are = counted(display.total, "line is", "lines are")
                display.noted(
                    f"{display.in_parts:,} of {are} in {folder}: the same command goes on"
                )
            raise
