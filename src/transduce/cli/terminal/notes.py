"""Notes on translations, on standard error: the first few in full, then how many more there are."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from transduce.errors import counted

if TYPE_CHECKING:
    from transduce.cli.terminal.text_input import TextInput
    from transduce.translation.options import Translation
    from transduce.translation.translator import Translator

SHOWN = 3


class Notes:
    """Writes what is unusual about translations, without flooding the terminal."""

    def __init__(self, translator: "Translator", lines: "TextInput", *, jsonl: bool) -> None:
        """`jsonl`: whether all notes are in the output too."""
        self._translator, self._lines, self._jsonl = translator, lines, jsonl
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

    def add(self, number: int, translation: "Translation") -> None:
        """Write the note on a line if it is among the first, or if lines are typed."""
        self._note_script(number, translation.source)
        if not translation.note:
            return
        if self._shown < SHOWN or self._lines.is_interactive:
            self._shown += 1
            _write(f"{self._lines.location(number)}: {translation.note}")
        else:
            self._unshown += 1

    def _note_script(self, number: int, source: str) -> None:
        """Say once if a line is in a script that the model does not know."""
        if self._script_is_noted:
            return
        script = self._translator.unknown_script(source)
        if script is not None:
            self._script_is_noted = True
            _write(
                f"{self._lines.location(number)} is in {script}, which the model was not trained "
                "on: do not rely on translations of such text (said once)"
            )


def _write(line: str) -> None:
    # The progress bar prints above itself what goes to sys.stderr; typer.echo goes around it.
    if sys.stderr is not None:
        sys.stderr.write(f"{line}\n")
