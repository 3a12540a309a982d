"""`transduce translate --out DIR/`: the parts of a folder instead of one file."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.errors import InputError, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from transduce.bulk.made_from import OutputSettings
    from transduce.bulk.translate import ShardedTranslation
    from transduce.bulk.workers import ModelSource
    from transduce.cli.terminal.text_input import TextInput

ShardLinesOption = Annotated[
    int | None,
    typer.Option(
        "--shard-lines",
        metavar="N",
        help="Lines of a part of --out DIR/, up to the end of a window; by default 10,000.",
        show_default=False,
    ),
]
OnOption = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="ADDRESS",
        help="Translate on a Ray cluster: ray, auto, HOST:PORT or ray://HOST:PORT.",
    ),
]


def folder_of_parts(out: str | None, shard_lines: int | None, on: str | None) -> Path | None:
    """Return the folder if the output is to be written in parts; None: it is one file."""
    if out is not None and (out.endswith(os.sep) or Path(out).is_dir() or shard_lines is not None):
        return Path(out)
    if shard_lines is not None:
        raise InputError(f"--shard-lines {shard_lines}: add --out DIR/, the folder for the parts")
    if on is not None:
        raise InputError(f"--on {on}: add --out DIR/, a folder in which parts are written")
    return None


def check_shardable(lines: "TextInput", *, text_format: str, draw: Path | None) -> None:
    """Raise if a text cannot be written in parts."""
    if not lines.can_be_read_twice:
        raise InputError("--out DIR/ is for files, which the same command can read again: name one")
    if text_format != "text":
        raise InputError(f"--format {text_format}: a document is one file, not parts in a folder")
    if draw is not None:
        raise InputError(f"--draw {draw}: leave it out, or choose a file for --out")


def write_parts(
    folder: Path,
    lines: "TextInput",
    total: int,
    output: "OutputSettings",
    *,
    source: "ModelSource",
    prefixes: "Callable[[], Iterable[str] | None]",
    shard_lines: int | None,
    window: int | None,
    on: str | None,
) -> None:
    """Translate all lines into the parts of a folder, or what is missing of them."""
    import transduce
    from transduce.bulk.made_from import TextFiles
    from transduce.bulk.translate import BulkText, translate_text, workers_for
    from transduce.cli.translation.shard_display import watching_parts
    from transduce.hardware.interpreter import short_pauses

    began = time.monotonic()
    if on is not None:
        # Ray would report what it is used for to its makers.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # noqa: TID251
    text = BulkText(
        TextFiles(lines.files, lines.fields),
        total,
        folder,
        output,
        prefixes,
        shard_lines,
        window,
        transduce.__version__,
    )
    with (
        watching_parts(folder, lines, jsonl=output.form == "jsonl") as watcher,
        workers_for(source, on, watcher.noted) as workers,
        short_pauses(),
    ):
        done = translate_text(text, workers, watcher)
    _say_written(folder, done, seconds=time.monotonic() - began)


def _say_written(folder: Path, done: "ShardedTranslation", *, seconds: float) -> None:
    from transduce.cli.terminal.train_display import duration

    now = "" if done.lines_now == done.lines else f", {done.lines_now:,} of them now,"
    typer.echo(
        f"wrote {folder}: {counted(done.lines, 'line')}{now} in "
        f"{counted(len(done.parts), 'part')} in {duration(seconds)}; "
        f"all of it: cat {folder}/part-*{done.parts[0].suffix}",
        err=True,
    )
