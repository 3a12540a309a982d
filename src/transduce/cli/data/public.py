"""`transduce data list` and `transduce data get`: public corpora by name."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.terminal.completion import complete_corpus

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID
    from rich.table import Table

    from transduce.data.public.progress import FileProgress, OnProgress

_ABOUT_OPUS = """\
From OPUS, name two languages: transduce data get opus:Europarl:de-en --to DIR
Another version: opus:Europarl/v7:de-en. Some corpora lack some pairs.
Downloads from OPUS could not be tried. Their sizes are not known beforehand."""
_DOING = {"download": "downloading", "check": "checking", "unpack": "unpacking"}


def list_corpora() -> None:
    """List the public corpora that `transduce data get` can download."""
    from rich.console import Console

    from transduce.data.public.catalog import CORPORA
    from transduce.data.public.opus import OPUS, PREFIX

    table = _table("corpus", "languages", ">pairs", ">download", "terms")
    for corpus in CORPORA.values():
        table.add_row(
            corpus.name,
            " ".join(corpus.languages),
            f"{corpus.pairs:,}",
            _size(corpus.size_bytes),
            corpus.terms,
        )
    opus = _table("corpus of OPUS", "version", ">languages", ">in pairs", "terms")
    for one in OPUS.values():
        numbers = (f"{one.languages:,}", f"{one.pairs:,}")
        opus.add_row(f"{PREFIX}{one.name}", one.version, *numbers, one.terms)
    console = Console(highlight=False)
    console.print(table)
    for part in (opus, _ABOUT_OPUS):
        console.print()
        console.print(part)


def _table(*headers: str) -> "Table":
    """Return a table without rows; a column whose header begins with > is aligned to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for header in headers:
        right = header.startswith(">")
        table.add_column(header.removeprefix(">"), justify="right" if right else "left")
    return table


def get_corpus(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Name of a corpus, such as opus:Europarl:de-en; 'transduce data list' lists them.",
            autocompletion=complete_corpus,
        ),
    ],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder for the files.")],
    mirror: Annotated[
        str | None,
        typer.Option(
            "--mirror",
            metavar="DIR|URL",
            help="A folder, or the prefix of a URL, with the same files; those of OPUS are named "
            "as Europarl-v8.de-en.txt.zip is.",
        ),
    ] = None,
) -> None:
    """Download a public corpus and unpack its texts; run it again to resume."""
    from rich.console import Console

    from transduce.data.public.catalog import SPLITS
    from transduce.data.public.fetch import fetch_corpus, find_corpus

    console = Console(stderr=True, highlight=False)
    if console.is_terminal:
        _get_with_bars(console, name, to, mirror=mirror)
    else:
        fetch_corpus(name, to, mirror=mirror, progress=_lines())
    for split in SPLITS:
        for text in find_corpus(name).texts(split):
            typer.echo(f"{split:5} {to / text.name}")


def _get_with_bars(console: "Console", name: str, to: Path, *, mirror: str | None) -> None:
    """Show a bar for each file in progress, and a line for each that is done."""
    from rich import progress as bars

    from transduce.data.public.fetch import fetch_corpus

    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.DownloadColumn(),
        bars.TransferSpeedColumn(),
    )
    tasks: dict[str, TaskID] = {}
    with bars.Progress(*columns, console=console, transient=True) as display:

        def show(step: "FileProgress") -> None:
            label = f"{_DOING[step.action]} {step.name}"
            if label not in tasks:
                tasks[label] = display.add_task(label)
            display.update(tasks[label], completed=step.done_bytes, total=step.total_bytes)
            if step.finished or step.retry_reason:
                display.remove_task(tasks.pop(label))
                display.console.print(_line(step), markup=False)

        fetch_corpus(name, to, mirror=mirror, progress=show)


def _lines() -> "OnProgress":
    """Return a callback that prints a line when work on a file starts, and one when it ends."""
    begun: set[str] = set()

    def show(step: "FileProgress") -> None:
        label = f"{_DOING[step.action]} {step.name}"
        if label not in begun and not step.finished and not step.retry_reason:
            begun.add(label)
            size = f" ({_size(step.total_bytes)})" if step.total_bytes else ""
            typer.echo(f"{label}{size}", err=True)
        if step.finished or step.retry_reason:
            begun.discard(label)
            typer.echo(_line(step), err=True)

    return show


def _line(step: "FileProgress") -> str:
    if step.retry_reason:
        return f"{step.name}: {step.retry_reason}; trying again from {_size(step.done_bytes)}"
    return f"{_DOING[step.action]} {step.name}: done"


def _size(count: int) -> str:
    """Format a number of bytes with a unit."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"
