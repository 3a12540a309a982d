"""Notes on translations, on standard error: the first few in full, then how many more there are."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from transduce.errors import counted

if TYPE_CHECKING:
    from transduce.cli.terminal.text_input import TextInput

SHOWN = 3


class Notes:
    """Writes what is unusual about translations, without flooding the terminal."""

    def __init__(self, lines: "TextInput", *, jsonl: bool) -> None:
        """`jsonl`: whether all notes are in the output too."""
        self._lines, self._jsonl = lines, jsonl
        self._unshown = 0
        self._shown = 0
        self._script_is_noted = False

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Say at the end how many notes were not shown."""
        try:
            yield
        finally:
            if self._unshown:
                notes = counted(self._unshown, "more note")
                _write(f"{notes} like these" + ("" if self._jsonl else "; --jsonl writes them all"))

    def add(self, number: int, note: str, script: str | None) -> None:
        """Write the note on a line if it is among the first, or if lines are typed.

        `script` is that of the line if the model was not trained on it, which is said once.
        """
        if script is not None and not self._script_is_noted:
            self._script_is_noted = True
            _write(
                f"{self._lines.location(number)} is in {script}, which the model was not trained "
                "on: do not rely on translations of such text (said once)"
            )
        if not note:
            return
        if self._shown < SHOWN or self._lines.is_interactive:
            self._shown += 1
            _write(f"{self._lines.location(number)}: {note}")
        else:
            self._unshown += 1


def _write(line: str) -> None:
    # The progress bar prints above itself what goes to sys.stderr; typer.echo goes around it.
    if sys.stderr is not None:
        sys.stderr.write(f"{line}\n")
