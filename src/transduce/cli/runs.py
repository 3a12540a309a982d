"""`transduce runs`: compare the runs in a folder."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.cli.terminal.train_display import duration, perplexity

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from transduce.analysis.runs import Run, RunGroup
    from transduce.training.run.events import Scored

Settings = dict[str, str]
"""Each setting by its full name, such as model.d_model, as text."""

FoldersArgument = Annotated[
    list[Path],
    typer.Argument(metavar="DIR", help="Runs, folders with runs, or with folders of runs."),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print all that is known, every score included, as JSON.")
]
PngOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Draw the dev scores of all runs into one picture, by steps and by minutes.",
    ),
]


def list_runs(folders: FoldersArgument, as_json: JsonOption = False, png: PngOption = None) -> None:
    """Compare runs: progress, scores, and the settings in which they differ.

    Runs that were scored on other text, or by other metrics, are not ranked with each other.
    """
    from transduce.analysis.runs import group_runs, read_runs

    if png is not None:
        from transduce.analysis.pictures import check_picture

        check_picture(png)
    runs = read_runs(folders, lambda line: typer.echo(_printable(line), err=True))
    groups = group_runs(runs)
    if as_json:
        tree = {"groups": list(_group_trees(groups)), "runs": list(_run_trees(groups))}
        typer.echo(json.dumps(tree, indent=1, ensure_ascii=False, allow_nan=False))
    else:
        _print(groups)
    if png is not None:
        from transduce.analysis.overlaid_curves import draw_overlaid

        draw_overlaid(groups, png)
        typer.echo(f"curves: {png}", err=True)


def _print(groups: "Sequence[RunGroup]") -> None:
    from rich.console import Console

    runs = [run for group in groups for run in group.runs]
    differing = _differing(runs)
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(_results(groups))
    for line in _remarks(groups):
        console.print(_printable(line), soft_wrap=True)
    if differing:
        console.print()
        console.print(_settings(runs, differing, console))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _leaves(tree: dict[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", _in_plain_words(value)


def _in_plain_words(value: Any) -> str:
    from transduce.config.sections.training import NO_LIMIT

    if value is None or value == NO_LIMIT:
        return "none"
    return _printable(str(value))


def _flat(run: "Run") -> Settings | None:
    return None if run.settings is None else dict(_leaves(run.settings))


def _differing(runs: "Sequence[Run]") -> list[str]:
    """Name the settings that differ between runs, except those that follow from others."""
    known = [settings for settings in map(_flat, runs) if settings is not None]
    names = dict.fromkeys(name for settings in known for name in settings)
    stated = {name for run in runs for name, _ in _leaves(run.stated)}
    return [
        name
        for name in names
        if name in stated and len({settings.get(name) for settings in known}) > 1
    ]


def _results(groups: "Sequence[RunGroup]") -> "Table":
    """Tabulate the runs, group by group; the first of a group is its best if it has a score."""
    metrics = sorted(
        {metric.name for group in groups for run in group.runs for metric in run.by_metric}
    )
    table = _table(["group", "run", "state"] if len(groups) > 1 else ["run", "state"])
    for heading in ("steps", "epochs", "time", "dev loss", "ppl", *metrics, "tokens/s"):
        table.add_column(_printable(heading), justify="right", overflow="fold")
    for number, group in enumerate(groups, start=1):
        for run in group.runs:
            name = _printable(f"{run.name} *" if run is group.best else run.name)
            label = [str(number)] if len(groups) > 1 else []
            style = "bold" if run is group.best else ""
            table.add_row(*label, name, *_cells(run, metrics), style=style)
    return table


def _cells(run: "Run", metrics: Sequence[str]) -> list[str]:
    return [
        _state(run),
        f"{run.steps:,}",
        "" if run.epochs is None else f"{run.epochs:.1f}",
        "" if run.seconds is None else duration(run.seconds),
        "" if run.score is None else f"{run.score.loss:.3f}",
        "" if run.score is None else perplexity(run.score.perplexity),
        *(_best_score(run, name) for name in metrics),
        "" if run.tokens_per_s is None else f"{run.tokens_per_s:,.0f}",
    ]


def _state(run: "Run") -> str:
    from transduce.analysis.runs import is_training

    if is_training(run):
        return "training"
    return "finished" if run.finished else "unfinished"


def _best_score(run: "Run", name: str) -> str:
    from transduce.analysis.runs import badness

    scores = [score for metric, score in run.by_metric.items() if metric.name == name]
    best = min(scores, key=badness, default=None)
    return "" if best is None or best.score is None else f"{best.score:.2f}"


def _remarks(groups: "Sequence[RunGroup]") -> Iterator[str]:
    """Say which runs are best, and which numbers cannot be compared."""
    best = [group.criterion for group in groups if group.best is not None]
    if best:
        among = " of its group" if len(groups) > 1 else ""
        by = " or ".join(dict.fromkeys(best))
        yield f"* {by}{among}; scores are each run's best, tokens/s its median"
    yield from _remarks_on_groups(groups)
    runs = [run for group in groups for run in group.runs]
    metrics = {metric for run in runs for metric in run.by_metric}
    names = sorted({metric.name for metric in metrics})
    for name in names:
        signatures = sorted(metric.signature for metric in metrics if metric.name == name)
        yield f"{name}: {'; '.join(signatures)}"
        if len(signatures) > 1:
            yield f"{name} scores with different signatures cannot be compared"
    if len(names) > 1:
        yield "runs with different metrics cannot be compared by them"
    if len({run.measure.sentences for run in runs if run.by_metric}) > 1:
        yield (
            f"{' and '.join(names)} scores of these runs are of different numbers of sentences "
            "(run.score_sentences): they cannot be compared"
        )
    if len({run.measure.vocabulary for run in runs if run.score}) > 1:
        yield "dev losses are per token: they cannot be compared between different vocabularies"
    if len({run.measure.loss_pairs for run in runs if run.score}) > 1:
        yield "dev losses of samples of the development set differ from those of all of it"


def _remarks_on_groups(groups: "Sequence[RunGroup]") -> Iterator[str]:
    if len(groups) == 1:
        return
    faults = []
    if len({group.dev_set for group in groups}) > 1:
        faults.append("other development sets")
    if len({group.dev_set for group in groups}) < len(groups):
        faults.append("other vocabularies")
    yield f"runs of different groups cannot be compared: they have {' or '.join(faults)}"
    for number, group in enumerate(groups, start=1):
        unknown = "unknown: it has no provenance.json that names it"
        vocabularies = ", ".join(_short(digest) or "unknown" for digest in group.vocabularies)
        yield (
            f"group {number}: development set {_short(group.dev_set) or unknown}; "
            f"vocabulary {vocabularies}"
        )


def _short(digest: str | None) -> str:
    """Return enough of a digest to tell it from others; what is no digest stays as it is."""
    if digest is None or digest.endswith(" entries"):
        return digest or ""
    return digest[:8]


def _settings(runs: "Sequence[Run]", names: Sequence[str], console: "Console") -> "Table":
    """Show the settings in which runs differ: as columns, or as words where those do not fit."""
    from rich.measure import Measurement

    columns = _table(["run", *names])
    for run in runs:
        settings = _flat(run) or dict.fromkeys(names, "?")
        columns.add_row(_printable(run.name), *(settings.get(name, "") for name in names))
    unbounded = console.options.update(max_width=10_000)
    fits = Measurement.get(console, unbounded, columns).maximum <= console.width
    return columns if fits else _settings_in_words(runs, names)


def _settings_in_words(runs: "Sequence[Run]", names: Sequence[str]) -> "Table":
    """Show the most common values first, and for each run those that differ from them.

    Two runs have none in common.
    """
    known = [settings for settings in map(_flat, runs) if settings is not None]
    usual: Settings = {}
    table = _table(["run", "settings that differ"])
    if len(known) > 2:
        usual = {name: value for name in names if (value := _usual(name, known)) is not None}
    if usual:
        table.add_row("most runs", _in_words(usual))
    for run in runs:
        own = _flat(run) or {}
        words = _in_words({n: own[n] for n in names if n in own and own[n] != usual.get(n)})
        table.add_row(_printable(run.name), "?" if run.settings is None else words or "the same")
    return table


def _usual(name: str, known: "Sequence[Settings]") -> str | None:
    """Return the value that more than half of the runs have, if there is one."""
    values = Counter(settings.get(name, "") for settings in known)
    [(value, count)] = values.most_common(1)
    return value if 2 * count > len(known) else None


def _in_words(settings: Settings) -> str:
    return "  ".join(f"{name}={value}" for name, value in settings.items() if value)


def _table(headings: Sequence[str]) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=0)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _group_trees(groups: "Sequence[RunGroup]") -> Iterator[dict[str, Any]]:
    for number, group in enumerate(groups, start=1):
        metric = group.ranked_by
        yield {
            "group": number,
            "ranked_by": "dev loss" if metric is None else f"dev {metric.name}",
            "signature": None if metric is None else metric.signature,
            "dev_set": group.dev_set,
            "vocabularies": group.vocabularies,
            "best": None if group.best is None else group.best.name,
            "runs": [run.name for run in group.runs],
        }


def _run_trees(groups: "Sequence[RunGroup]") -> Iterator[dict[str, Any]]:
    for number, group in enumerate(groups, start=1):
        for run in group.runs:
            yield {
                "run": run.name,
                "folder": str(run.folder),
                "group": number,
                "is_best_of_group": run is group.best,
                "state": _state(run),
                "finished": run.finished,
                "steps": run.steps,
                "epochs": _finite(run.epochs),
                "seconds": _finite(run.seconds),
                "tokens_per_s": _finite(run.tokens_per_s),
                "dev_set": run.measure.dev_set,
                "vocabulary": run.measure.vocabulary,
                "best_by_loss": None if run.score is None else _score_tree(run.score),
                "best_by_metric": [_score_tree(score) for score in run.by_metric.values()],
                "scores": [_score_tree(score) for score in run.scores],
                "settings": run.settings,
            }


def _score_tree(score: "Scored") -> dict[str, Any]:
    return {
        "step": score.step,
        "seconds": _finite(score.seconds),
        "loss": _finite(score.loss),
        "perplexity": _finite(score.perplexity),
        "metric": score.metric,
        **({"parts": score.parts} if score.parts else {}),
        "score": _finite(score.score),
        "signature": score.signature,
        "higher_is_better": score.higher_is_better,
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
