"""`transduce runs`: the runs in a folder, side by side."""

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.cli.train_display import duration, perplexity
from transduce.errors import InputError, TransduceError
from transduce.training.events import Finished, Scored, Started, Stepped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_JOURNAL, _SETTINGS = "journal.jsonl", "config.yaml"

Settings = dict[str, str]
"""Each setting by its full name, such as model.d_model, as it is written."""


@dataclass(frozen=True)
class Run:
    """What a run's folder tells."""

    name: str
    finished: bool
    steps: int
    epochs: float | None
    seconds: float | None
    score: Scored | None  # the one with the lowest loss
    bleu: float | None  # the highest
    signatures: frozenset[str]
    tokens_per_s: float | None  # the median
    settings: Settings | None
    stated: frozenset[str]  # the settings that do not just follow from others


def list_runs(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder with runs, or with folders of runs.")
    ],
) -> None:
    """Compare runs: how far each came, its scores, and the settings in which they differ."""
    from rich.console import Console

    runs = list(_read_runs(folder))
    if not runs:
        raise InputError(f"none of the runs in {folder} can be read")
    runs.sort(key=lambda run: (run.score.loss if run.score else math.inf, run.name))
    differing = _differing(runs)
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(_results(runs))
    for line in _remarks(runs, differing):
        console.print(line, soft_wrap=True)
    if differing:
        console.print()
        console.print(_settings(runs, differing, console))


def _read_runs(folder: Path) -> Iterator[Run]:
    """Read every run that can be read, and say of the others why not."""
    for place in _run_folders(folder):
        name = _printable(str(place.relative_to(folder)) if place != folder else place.name or ".")
        try:
            yield _read_run(name, place)
        except TransduceError as unreadable:
            typer.echo(f"{name} is left out: {_printable(str(unreadable))}", err=True)


def _run_folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        fault = "is a file" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {fault}; give a folder with runs, as 'transduce train' made it")
    patterns = (_JOURNAL, f"*/{_JOURNAL}", f"*/*/{_JOURNAL}")
    found = sorted(path.parent for pattern in patterns for path in folder.glob(pattern))
    if not found:
        raise InputError(
            f"no runs in {folder}, nor in its folders; "
            f"a run is a folder with a {_JOURNAL}: 'transduce train' makes one"
        )
    return found


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _read_run(name: str, place: Path) -> Run:
    from transduce.training.journal import read_journal

    events = read_journal(place / _JOURNAL)
    steps = [event for event in events if isinstance(event, Stepped)]
    scores = [event for event in events if isinstance(event, Scored)]
    timed = [event for event in events if isinstance(event, Started | Stepped | Finished)]
    bleus = [(score.bleu, score.signature) for score in scores if score.bleu is not None]
    settings, stated = _read_settings(name, place / _SETTINGS)
    speeds = [step.tokens_per_s for step in steps if math.isfinite(step.tokens_per_s)]
    finite = [score for score in scores if math.isfinite(score.loss)]
    return Run(
        name,
        finished=bool(events) and isinstance(events[-1], Finished),
        steps=events[-1].step if events else 0,
        epochs=steps[-1].epoch - 1 + steps[-1].epoch_share if steps else None,
        seconds=timed[-1].seconds if timed else None,
        score=min(finite, key=lambda score: score.loss, default=None),
        bleu=max((bleu for bleu, _ in bleus), default=None),
        signatures=frozenset(signature for _, signature in bleus),
        tokens_per_s=statistics.median(speeds) if speeds else None,
        settings=settings,
        stated=stated,
    )


def _read_settings(name: str, path: Path) -> tuple[Settings | None, frozenset[str]]:
    from transduce.config.load import load_config

    try:
        config = load_config(path)
    except TransduceError as unreadable:
        typer.echo(
            f"{name} is listed without its settings: {_printable(str(unreadable))}", err=True
        )
        return None, frozenset()
    stated = dict(_leaves(config.model_dump(exclude_unset=True)))
    return dict(_leaves(config.model_dump())), frozenset(stated)


def _leaves(tree: dict[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", _printable(str(value))


def _differing(runs: Sequence[Run]) -> list[str]:
    """Name the settings that are not the same in all runs, but for those that only follow."""
    known = [run.settings for run in runs if run.settings is not None]
    names = dict.fromkeys(name for settings in known for name in settings)
    stated = frozenset[str]().union(*(run.stated for run in runs))
    return [
        name
        for name in names
        if name in stated and len({settings.get(name) for settings in known}) > 1
    ]


def _results(runs: Sequence[Run]) -> "Table":
    table = _table(["run", "state"])
    for heading in ("steps", "epochs", "time", "dev loss", "ppl", "BLEU", "tokens/s"):
        table.add_column(heading, justify="right", overflow="fold")
    for run in runs:
        best = run is runs[0] and run.score is not None
        name = f"{run.name} *" if best else run.name
        table.add_row(name, *_cells(run), style="bold" if best else "")
    return table


def _cells(run: Run) -> list[str]:
    return [
        "finished" if run.finished else "unfinished",
        f"{run.steps:,}",
        "" if run.epochs is None else f"{run.epochs:.1f}",
        "" if run.seconds is None else duration(run.seconds),
        "" if run.score is None else f"{run.score.loss:.3f}",
        "" if run.score is None else perplexity(run.score.perplexity),
        "" if run.bleu is None else f"{run.bleu:.2f}",
        "" if run.tokens_per_s is None else f"{run.tokens_per_s:,.0f}",
    ]


def _remarks(runs: Sequence[Run], differing: Sequence[str]) -> Iterator[str]:
    """Say which is best, and what about the numbers cannot be compared."""
    if runs[0].score is not None:
        yield "* lowest dev loss; scores are each run's best, tokens/s its median"
    signatures = sorted({signature for run in runs for signature in run.signatures})
    if signatures:
        yield f"BLEU: {'; '.join(_printable(signature) for signature in signatures)}"
    if len(signatures) > 1:
        yield "BLEUs with different signatures cannot be compared"
    if any(name.endswith("vocab_size") for name in differing):
        yield "dev losses are per token: runs with other vocabularies cannot be compared by them"


def _settings(runs: Sequence[Run], names: Sequence[str], console: "Console") -> "Table":
    """Lay out the settings in which runs differ: in columns, or in words where those do not fit."""
    from rich.measure import Measurement

    columns = _table(["run", *names])
    for run in runs:
        settings = dict.fromkeys(names, "?") if run.settings is None else run.settings
        columns.add_row(run.name, *(settings.get(name, "") for name in names))
    unbounded = console.options.update(max_width=10_000)
    fits = Measurement.get(console, unbounded, columns).maximum <= console.width
    return columns if fits else _settings_in_words(runs, names)


def _settings_in_words(runs: Sequence[Run], names: Sequence[str]) -> "Table":
    """Say once what most runs have, and of each run what it has otherwise."""
    known = [run.settings for run in runs if run.settings is not None]
    usual = {
        name: Counter(settings.get(name, "") for settings in known).most_common(1)[0][0]
        for name in names
    }
    table = _table(["run", "settings that differ"])
    for run in runs:
        own = run.settings or {}
        words = _in_words({n: own[n] for n in names if n in own and own[n] != usual[n]})
        table.add_row(run.name, "?" if run.settings is None else words)
    table.add_row("(otherwise)", _in_words(usual))
    return table


def _in_words(settings: Settings) -> str:
    return "  ".join(f"{name}={value}" for name, value in settings.items())


def _table(headings: Sequence[str]) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=0)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
