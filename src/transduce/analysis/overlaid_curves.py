"""The dev scores of several runs in one picture: by steps and by minutes of training."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from transduce.analysis.curves import set_title, style_panel, zoom
from transduce.analysis.pictures import check_picture, fonts_for, save_picture
from transduce.training.run.events import Scored

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from transduce.analysis.runs import Run, RunGroup

Horizontal = Callable[[Scored], float]
Vertical = Callable[[Scored], float | None]

_COLOURS = (
    *("#3b6fb6", "#d1495b", "#33834f", "#c07f1c", "#7a55b3"),
    *("#15808f", "#b44a88", "#866436", "#666666", "#a3b100"),
)
_DASHES = ("-", "--", ":", "-.")
_AXES: dict[str, Horizontal] = {
    "step": lambda score: score.step,
    "minutes of training": lambda score: score.seconds / 60,
}


def draw_overlaid(groups: "Sequence[RunGroup]", path: Path) -> None:
    """Draw the scores of all runs, each group of comparable runs with dashes of its own."""
    check_picture(path)
    from matplotlib.figure import Figure

    rows = [("dev loss, nats per target token", _loss), *map(_metric_row, _metrics(groups))]
    height = 3.4 * len(rows) + 0.3 * (1 + sum(len(group.runs) for group in groups) // 2)
    figure = Figure(figsize=(10, height), dpi=150, layout="constrained")
    panels = figure.subplots(len(rows), 2, squeeze=False)
    lines: list[Line2D] = []
    for row, (title, value) in zip(panels, rows, strict=True):
        for panel, (axis, position) in zip(row, _AXES.items(), strict=True):
            lines = _draw(panel, groups, position, value)
            if value is _loss:
                zoom(panel, np.concatenate([np.asarray(line.get_ydata()) for line in lines]))
            _style(panel, f"{title}, by {axis.partition(' ')[0]}", axis)
    labels = [str(line.get_label()) for line in lines]
    fonts, _ = fonts_for(labels)
    figure.legend(
        lines,
        labels,
        loc="outside lower center",
        ncols=2,
        prop={"family": fonts, "size": 9},
        frameon=False,
    )
    if len(groups) > 1:
        figure.suptitle("groups have other development sets or vocabularies: compare within one")
    save_picture(figure, path)


def _loss(score: Scored) -> float:
    return score.loss


def _metrics(groups: "Sequence[RunGroup]") -> list[tuple[str, int]]:
    """Return the name of each metric, and the number of its signatures."""
    found = {metric for group in groups for run in group.runs for metric in run.by_metric}
    names = sorted({metric.name for metric in found})
    return [(name, sum(metric.name == name for metric in found)) for name in names]


def _metric_row(metric: tuple[str, int]) -> tuple[str, Vertical]:
    name, signatures = metric
    title = f"dev {name}" + (" (different signatures)" if signatures > 1 else "")
    return title, lambda score: score.score if score.metric == name else None


def _draw(
    panel: "Axes", groups: "Sequence[RunGroup]", position: Horizontal, value: Vertical
) -> "list[Line2D]":
    lines: list[Line2D] = []
    for number, group in enumerate(groups):
        for run in group.runs:
            x, y = _points(run, position, value)
            label = f"{run.name} (group {number + 1})" if len(groups) > 1 else run.name
            [line] = panel.plot(
                x,
                y,
                _DASHES[(number + len(lines) // len(_COLOURS)) % len(_DASHES)],
                color=_COLOURS[len(lines) % len(_COLOURS)],
                linewidth=1.5,
                marker=".",
                label=label,
            )
            lines.append(line)
    return lines


def _points(run: "Run", position: Horizontal, value: Vertical) -> tuple[list[float], list[float]]:
    """Return the finite scores of a run; of a step that was scored again, the last."""
    by_step = {score.step: score for score in run.scores}
    scores = [by_step[step] for step in sorted(by_step)]
    points = [(position(score), value(score)) for score in scores]
    kept = [(x, y) for x, y in points if y is not None and np.isfinite((x, y)).all()]
    return [x for x, _ in kept], [y for _, y in kept]


def _style(panel: "Axes", title: str, axis: str) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    style_panel(panel)
    set_title(panel, title)
    panel.set_xlabel(axis, fontsize=9, color="#333333")
    panel.set_xlim(left=0)
    panel.xaxis.set_major_locator(MaxNLocator(6))
    panel.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
