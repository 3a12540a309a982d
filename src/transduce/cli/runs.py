"""`transduce runs`: compare the runs in a folder."""

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.cli.terminal.train_display import duration, perplexity
from transduce.errors import InputError, TransduceError
from transduce.training.run.events import Finished, Scored, Started, Stepped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_JOURNAL, _SETTINGS = "journal.jsonl", "config.yaml"

Settings = dict[str, str]
"""Each setting by its full name, such as model.d_model, as text."""


@dataclass(frozen=True)
class RunMetric:
    """A metric of a run; scores are comparable only where both fields are equal."""

    name: str
    signature: str


@dataclass(frozen=True)
class Run:
    """What is known of a run from its folder."""

    name: str
    finished: bool
    steps: int
    epochs: float | None
    seconds: float | None
    score: Scored | None  # the one with the lowest loss
    by_metric: dict[RunMetric, Scored]  # the best score by each
    best_by: RunMetric | None  # by which the run chose its best weights; None: by the loss
    tokens_per_s: float | None  # the median
    settings: Settings | None
    stated: frozenset[str]  # the settings that do not just follow from others


def list_runs(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder with runs, or with folders of runs.")
    ],
) -> None:
    """Compare runs: progress, scores, and the settings in which they differ."""
    from rich.console import Console

    runs = list(_read_runs(folder))
    if not runs:
        raise InputError(f"none of the runs in {folder} can be read")
    decisive = _decisive_metric(runs)
    runs.sort(key=lambda run: (_rank(run, decisive), run.name))
    differing = _differing(runs)
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(_results(runs, has_best=math.isfinite(_rank(runs[0], decisive))))
    for line in _remarks(runs, decisive, differing):
        console.print(line, soft_wrap=True)
    if differing:
        console.print()
        console.print(_settings(runs, differing, console))


def _read_runs(folder: Path) -> Iterator[Run]:
    """Read every run that can be read, and report why the others cannot."""
    for place in _run_folders(folder):
        name = _printable(str(place.relative_to(folder)) if place != folder else place.name or ".")
        try:
            yield _read_run(name, place)
        except TransduceError as unreadable:
            typer.echo(f"{name} is left out: {_printable(str(unreadable))}", err=True)


def _run_folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        fault = "is a file" if folder.exists() else "does not exist"
        raise InputError(
            f"{folder} {fault}; give a folder with runs, as 'transduce train' makes them"
        )
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
    from transduce.training.run.journal import read_journal

    events = read_journal(place / _JOURNAL)
    steps = [event for event in events if isinstance(event, Stepped)]
    scores = [event for event in events if isinstance(event, Scored)]
    timed = [event for event in events if isinstance(event, Started | Stepped | Finished)]
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
        by_metric=_best_by_metric(scores),
        best_by=_metric_of(scores[-1]) if scores and scores[-1].best_by == "metric" else None,
        tokens_per_s=statistics.median(speeds) if speeds else None,
        settings=settings,
        stated=stated,
    )


def _metric_of(score: Scored) -> RunMetric | None:
    return None if score.metric is None else RunMetric(score.metric, score.signature)


def _best_by_metric(scores: Sequence[Scored]) -> dict[RunMetric, Scored]:
    best: dict[RunMetric, Scored] = {}
    for score in scores:
        metric = _metric_of(score)
        if metric is not None and score.score is not None and math.isfinite(score.score):
            best[metric] = min(best.get(metric, score), score, key=_badness)
    return best


def _badness(score: Scored) -> float:
    """Return a number that is lower for a better score by the run's metric."""
    if score.score is None:
        return math.inf
    return -score.score if score.higher_is_better else score.score


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
    """Name the settings that differ between runs, except those that follow from others."""
    known = [run.settings for run in runs if run.settings is not None]
    names = dict.fromkeys(name for settings in known for name in settings)
    stated = frozenset[str]().union(*(run.stated for run in runs))
    return [
        name
        for name in names
        if name in stated and len({settings.get(name) for settings in known}) > 1
    ]


def _decisive_metric(runs: Sequence[Run]) -> RunMetric | None:
    """Return the metric by which all runs chose their best weights; None: compare by the loss."""
    chosen = {run.best_by for run in runs if run.score or run.by_metric}
    return chosen.pop() if len(chosen) == 1 else None


def _rank(run: Run, decisive: RunMetric | None) -> float:
    """Return a number that is lower for a better run."""
    if decisive is not None:
        return _badness(run.by_metric[decisive]) if decisive in run.by_metric else math.inf
    return run.score.loss if run.score else math.inf


def _results(runs: Sequence[Run], *, has_best: bool) -> "Table":
    """Tabulate the runs, which are sorted; the first is the best if there is one."""
    metrics = sorted({metric.name for run in runs for metric in run.by_metric})
    table = _table(["run", "state"])
    for heading in ("steps", "epochs", "time", "dev loss", "ppl", *metrics, "tokens/s"):
        table.add_column(_printable(heading), justify="right", overflow="fold")
    for run in runs:
        best = has_best and run is runs[0]
        name = f"{run.name} *" if best else run.name
        table.add_row(name, *_cells(run, metrics), style="bold" if best else "")
    return table


def _cells(run: Run, metrics: Sequence[str]) -> list[str]:
    return [
        "finished" if run.finished else "unfinished",
        f"{run.steps:,}",
        "" if run.epochs is None else f"{run.epochs:.1f}",
        "" if run.seconds is None else duration(run.seconds),
        "" if run.score is None else f"{run.score.loss:.3f}",
        "" if run.score is None else perplexity(run.score.perplexity),
        *(_best_score(run, name) for name in metrics),
        "" if run.tokens_per_s is None else f"{run.tokens_per_s:,.0f}",
    ]


def _best_score(run: Run, name: str) -> str:
    scores = [score for metric, score in run.by_metric.items() if metric.name == name]
    best = min(scores, key=_badness, default=None)
    return "" if best is None or best.score is None else f"{best.score:.2f}"


def _remarks(
    runs: Sequence[Run], decisive: RunMetric | None, differing: Sequence[str]
) -> Iterator[str]:
    """Say which run is best, and which numbers cannot be compared."""
    if math.isfinite(_rank(runs[0], decisive)):
        by = "lowest dev loss" if decisive is None else f"best dev {_printable(decisive.name)}"
        yield f"* {by}; scores are each run's best, tokens/s its median"
    metrics = {metric for run in runs for metric in run.by_metric}
    names = sorted({metric.name for metric in metrics})
    for name in names:
        signatures = sorted(metric.signature for metric in metrics if metric.name == name)
        yield _printable(f"{name}: {'; '.join(signatures)}")
        if len(signatures) > 1:
            yield _printable(f"{name} scores with different signatures cannot be compared")
    if len(names) > 1:
        yield "runs with different metrics cannot be compared by them"
    if any(name.endswith("vocab_size") for name in differing):
        yield "dev losses are per token: they cannot be compared between different vocabularies"


def _settings(runs: Sequence[Run], names: Sequence[str], console: "Console") -> "Table":
    """Show the settings in which runs differ: as columns, or as words where those do not fit."""
    from rich.measure import Measurement

    columns = _table(["run", *names])
    for run in runs:
        settings = dict.fromkeys(names, "?") if run.settings is None else run.settings
        columns.add_row(run.name, *(settings.get(name, "") for name in names))
    unbounded = console.options.update(max_width=10_000)
    fits = Measurement.get(console, unbounded, columns).maximum <= console.width
    return columns if fits else _settings_in_words(runs, names)


def _settings_in_words(runs: Sequence[Run], names: Sequence[str]) -> "Table":
    """Show the most common values once, and for each run those that differ from them."""
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
