"""A picture of a search: dev scores by the number of the trial, and by each searched setting."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from transduce.analysis.curves import set_title, style_panel, zoom
from transduce.analysis.pictures import fonts_for, save_picture
from transduce.sweeps.results import SweepResults, dev_cost
from transduce.sweeps.searching.planning import trial_number
from transduce.sweeps.searching.ranges import SettingRange, SweepSearch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 3
_FINISHED, _PRUNED, _BEST = "#3b6fb6", "#999999", "#d1495b"


@dataclass(frozen=True)
class _Point:
    """A trial with its score on the development set."""

    number: int
    values: dict[str, Any]
    score: float
    cost: float
    is_finished: bool  # False: it was stopped early


def draw_search(results: SweepResults, path: Path) -> bool:
    """Draw the scores of the trials that are over; return False if there are none."""
    from matplotlib.figure import Figure

    search = results.plan.file.search
    assert search is not None
    points = _points(results, search)
    if not points:
        return False
    rows = math.ceil((1 + len(search.ranges)) / COLUMNS)
    figure = Figure(figsize=(4 * COLUMNS, 3.2 * rows), dpi=150, layout="constrained")
    panels = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
    for panel in panels:
        panel.set_visible(False)
    first, *others = panels[: 1 + len(search.ranges)]
    _style(first, points, f"{_heading(results, search)} by trial")
    _draw_by_number(first, points)
    for panel, (name, found) in zip(others, search.ranges.items(), strict=True):
        _style(panel, points, f"by {name}")
        _draw_by_setting(panel, points, name, found)
    save_picture(figure, path)
    return True


def _points(results: SweepResults, search: SweepSearch) -> list[_Point]:
    found = []
    for run in results.runs:
        cost = dev_cost(run, search.by) if run.status in ("finished", "pruned") else None
        if run.planned.trial and cost is not None and math.isfinite(cost):
            metric = run.dev.metric if run.dev and search.by == "metric" else None
            score = cost if metric is None else metric.score
            number = trial_number(run.planned)
            found.append(_Point(number, run.planned.trial, score, cost, run.status == "finished"))
    return sorted(found, key=lambda point: point.number)


def _heading(results: SweepResults, search: SweepSearch) -> str:
    if search.by == "loss":
        return "dev loss"
    named = (run.dev.metric.name for run in results.runs if run.dev and run.dev.metric)
    return f"dev {next(named, 'score')}"


def _style(panel: "Axes", points: Sequence[_Point], title: str) -> None:
    panel.set_visible(True)
    style_panel(panel)
    set_title(panel, title)
    finished = [point.score for point in points if point.is_finished]
    zoom(panel, np.array(finished or [point.score for point in points]))


def _draw_by_number(panel: "Axes", points: Sequence[_Point]) -> None:
    from matplotlib.ticker import MaxNLocator

    best: list[_Point] = []
    for point in points:
        if point.is_finished:
            best.append(min([point, *best[-1:]], key=lambda one: one.cost))
    numbers = [point.number for point in points if point.is_finished]
    panel.step(numbers, [point.score for point in best], where="post", color=_BEST, label="best")
    _scatter(panel, points, [point.number for point in points])
    panel.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    panel.legend(frameon=False, fontsize=8)


def _draw_by_setting(
    panel: "Axes", points: Sequence[_Point], name: str, found: SettingRange
) -> None:
    values = [point.values[name] for point in points]
    if found.choices is None:
        _scatter(panel, points, values)
        if found.log:
            panel.set_xscale("log")
        return
    places = [found.choices.index(value) if value in found.choices else -1 for value in values]
    _scatter(panel, points, places)
    labels = [str(value) for value in found.choices]
    fonts, _ = fonts_for(labels)
    panel.set_xticks(range(len(labels)), labels, fontfamily=fonts)
    panel.set_xlim(-0.5, len(labels) - 0.5)


def _scatter(panel: "Axes", points: Sequence[_Point], places: Sequence[float]) -> None:
    for is_finished, colour, fill, label in (
        (True, _FINISHED, _FINISHED, "finished"),
        (False, _PRUNED, "none", "pruned"),
    ):
        chosen = [n for n, point in enumerate(points) if point.is_finished == is_finished]
        if chosen:
            panel.scatter(
                [places[n] for n in chosen],
                [points[n].score for n in chosen],
                s=26,
                edgecolors=colour,
                facecolors=fill,
                label=label,
            )
