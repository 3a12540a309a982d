"""Text line by line: to standard output, or to a file that a later command continues."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import track

import transduce
from transduce.bulk.made_from import LEFT_OUT, OutputSettings, TextFiles, described_model
from transduce.bulk.output_lines import output_lines
from transduce.bulk.workers import ModelIdentity
from transduce.cli.analysis.tree_drawing import draw_tree
from transduce.cli.terminal.notes import Notes
from transduce.cli.terminal.text_input import TextInput
from transduce.cli.terminal.text_output import may_reach_terminal, text_output
from transduce.cli.terminal.train_display import duration
from transduce.cli.translation.prefixes import Prefixes
from transduce.errors import counted
from transduce.files.regular import parse_json
from transduce.files.resumable import ResumableFile, resumable_file
from transduce.hardware.interpreter import short_pauses
from transduce.translation.options import Translation
from transduce.translation.translator import Translator

MAY_CHANGE = ("version", "device", "window")
"""What may differ from the command that began a file: translations differ by rounding at most."""

WINDOW_OF_FILE = 128
"""Lines to read at a time on the CPU if the output is a file: what is lost when it is stopped."""


@dataclass(frozen=True)
class LineTranslation:
    """Which lines are translated, how, and in which form they are written."""

    translator: Translator
    lines: TextInput
    output: OutputSettings
    prefixes: Prefixes
    window: int | None
    draw: Path | None = None  # a picture of the first tree

    def run(self, out: Path | None, total: int | None) -> None:
        """Translate all lines; tell how many were written to a file."""
        began = time.monotonic()
        with short_pauses():
            if out is None or total is None or (out.exists() and not out.is_file()):
                translated = self._write(out, total=total)
            else:
                translated = self._write_or_continue(out, total)
        if out is not None:
            _say_written(out, translated, total, seconds=time.monotonic() - began)

    def _write(self, out: Path | None, *, total: int | None) -> int:
        """Write to standard output, or to a file that is complete or absent; count the lines."""
        prints_on_terminal = out is None and may_reach_terminal()
        notes, done = Notes(self.lines, jsonl=self.output.form == "jsonl"), 0
        with text_output(out) as write, notes.counting():
            for number, translation in self._translations(
                total=None if prints_on_terminal else total
            ):
                for line in self._formatted(number, translation):
                    write(line)
                self._note(notes, number, translation)
                done += 1
        return done

    def _write_or_continue(self, out: Path, total: int) -> int:
        """Write to a file, or continue what a command that was stopped has left of it.

        Return the number of lines that were translated now.
        """
        window = self.window or (WINDOW_OF_FILE if self.translator.device.type == "cpu" else None)
        work = replace(self, window=window)
        made_from = work._made_from()
        with resumable_file(out, made_from, may_change=MAY_CHANGE, left_out=LEFT_OUT) as file:
            start = work._continue_from(file, out, total)
            done = start
            notes = Notes(self.lines, jsonl=self.output.form == "jsonl")
            try:
                with notes.counting():
                    for number, translation in work._translations(total=total, start=start):
                        file.write(work._formatted(number, translation))
                        done = number + 1
                        self._note(notes, number, translation)
            except KeyboardInterrupt:
                if done:
                    begun = f"{done:,} of {counted(total, 'line is', 'lines are')} in {out}.partial"
                    typer.echo(f"{begun}: the same command goes on from there", err=True)
                raise
        return done - start

    def _made_from(self) -> dict[str, Any]:
        """Describe everything that decides what is written."""
        return {
            "version": transduce.__version__,
            **described_model(ModelIdentity.of(self.translator)),
            **TextFiles(self.lines.files, self.lines.fields).described(),
            "window": self.window,
            **self.output.described(),
        }

    def _continue_from(self, file: ResumableFile, out: Path, total: int) -> int:
        """Keep the windows of lines that are complete; return how many lines these are."""
        for change in file.changes:
            typer.echo(f"{out}.partial was begun with {change}: going on with it", err=True)
        record_of = RECORD_OF[self.output.form]
        listed = self.output.options.n_best if self.output.form == "n-best" else 1
        done = file.complete_records(record_of, most_lines=listed)
        start = 0
        if done:
            start = self.translator.count_in_whole_windows(
                self.lines, min(done, total), prefixes=self.prefixes(), window=self.window
            )
        file.keep(start, record_of)
        if start:
            typer.echo(
                f"{start:,} of {counted(total, 'line was', 'lines were')} "
                "translated before: going on from there",
                err=True,
            )
        return start

    def _translations(
        self, *, total: int | None, start: int = 0
    ) -> Iterator[tuple[int, Translation]]:
        """Translate the lines from a number on; show the progress if the total is known."""
        at_once = 1 if self.window is None and self.lines.is_interactive else self.window
        stream = self.translator.stream(
            self.lines,
            self.output.options,
            prefixes=self.prefixes(),
            window=at_once,
            start=start,
            read_ahead=total is not None and self.translator.gains_by_reading_ahead,
        )
        shown = _with_progress(stream, None if total is None else total - start)
        for number, translation in enumerate(shown, start=start):
            if number == 0 and self.draw is not None:
                draw_tree(self.draw, translation.text)
            yield number, translation

    def _formatted(self, number: int, translation: Translation) -> Iterator[str]:
        return output_lines(number, translation, self.output.form)

    def _note(self, notes: Notes, number: int, translation: Translation) -> None:
        notes.add(number, translation.note, self.translator.unknown_script(translation.source))


def _with_progress(translations: Iterable[Translation], total: int | None) -> Iterable[Translation]:
    """Show a progress bar on a terminal, if the number of lines is known."""
    console = Console(stderr=True)
    if total is None or not console.is_terminal:
        return translations
    return track(translations, "translating", total, console=console, transient=True)


def _say_written(out: Path, translated: int, total: int | None, *, seconds: float) -> None:
    lines = counted(translated if total is None else total, "line")
    now = "" if total in (None, translated) else f", {translated:,} of them now,"
    typer.echo(f"wrote {out}: {lines}{now} in {duration(seconds)}", err=True)


def _line_number(number: int, _line: bytes) -> int:
    return number


def _object_number(number: int, line: bytes) -> int | None:
    try:
        return number if isinstance(parse_json(line.decode()), dict) else None
    except ValueError:
        return None


def _listed_number(_number: int, line: bytes) -> int | None:
    """Return the number that a line of the n best begins with."""
    number, sign, _ = line.partition(b" ||| ")
    return int(number) if sign and number.isdigit() else None


RECORD_OF = {"text": _line_number, "jsonl": _object_number, "n-best": _listed_number}
"""Of each form of output, what says which line of input a line belongs to."""
