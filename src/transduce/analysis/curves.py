"""A run as one picture: losses, the task's metric, learning rate and speed."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from transduce.analysis.pictures import available as available
from transduce.analysis.pictures import save_picture
from transduce.errors import InputError, how_to_install
from transduce.training.run.events import Event, Scored, Stepped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Numbers = NDArray[np.float64]
Measured = TypeVar("Measured", Stepped, Scored)
LegendLocation = Literal["upper right", "lower right", "best"]

_MAX_POINTS = 2000  # of a line: more than the picture has columns of pixels
_FEW_POINTS = 60  # up to this many are drawn as dots on their line
_ROUND = (1, 2, 5, 10)  # first digits of the distance between an axis' ticks
_TRAINING, _DEV, _OTHER = "#3b6fb6", "#d1495b", "#666666"


def draw_curves(events: Sequence[Event], path: Path) -> None:
    """Draw the events of a run as a picture, which replaces an older one once it is complete."""
    if not available():
        raise InputError(f"matplotlib is not installed: {how_to_install('plot')}")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6.4), dpi=150, layout="constrained")
    _fill(figure, _last_made(events, Stepped), _last_made(events, Scored))
    save_picture(figure, path)


def _last_made(events: Iterable[Event], kind: type[Measured]) -> list[Measured]:
    """Return the events of a kind in the order of their steps; of a repeated step, the last."""
    by_step = {event.step: event for event in events if isinstance(event, kind)}
    return [by_step[step] for step in sorted(by_step)]


def _fill(figure: "Figure", steps: list[Stepped], scores: list[Scored]) -> None:
    has_metric = any(score.score is not None for score in scores)
    panels = "AB;CD" if has_metric else "AA;CD"
    axes = figure.subplot_mosaic(panels, height_ratios=(2.5, 1))
    end = max([event.step for event in steps] + [event.step for event in scores], default=0)
    for panel in axes.values():
        _style(panel, end)
    _draw_losses(axes["A"], steps, scores)
    if has_metric:
        _draw_metric(axes["B"], scores)
    _draw_rate(axes["C"], steps)
    _draw_speed(axes["D"], steps)


def _style(panel: "Axes", end: int) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    style_panel(panel)
    panel.set_xlim(0, max(end, 1) * 1.015)
    panel.set_xlabel("step", fontsize=9, color="#333333")
    panel.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=_ROUND))
    panel.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def style_panel(panel: "Axes") -> None:
    """Draw axes and grid in light grey."""
    panel.spines[["top", "right"]].set_visible(False)
    panel.spines[["left", "bottom"]].set_color("#aaaaaa")
    panel.grid(color="#e6e6e6", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=9, color="#aaaaaa", labelcolor="#333333")


def set_title(panel: "Axes", text: str) -> None:
    """Write a title above the left end of a panel."""
    panel.set_title(text, loc="left", fontsize=10.5, color="#222222")


def _draw_losses(panel: "Axes", steps: list[Stepped], scores: list[Scored]) -> None:
    set_title(panel, "loss, nats per target token")
    made, losses = _line(steps, [event.loss for event in steps])
    scored, dev_losses = _line(scores, [event.loss for event in scores])
    smooth = _smoothed(made, losses)
    _plot_rough(panel, made, losses, _TRAINING)
    _plot(panel, *smooth, _TRAINING, "training, label smoothing included")
    if len(scored):
        _plot(panel, scored, dev_losses, _DEV, "development")
    best = _best(scores)
    if best:
        perplexity = f"{best.perplexity:{',.2f' if best.perplexity < 1e6 else '.2e'}}"
        by = f" by {best.metric}" if best.best_by == "metric" else ""
        label = f"best{by}: {best.loss:.3f}, perplexity {perplexity}, step {best.step:,}"
        _mark(panel, best.step, best.loss, label)
    zoom(panel, np.concatenate([smooth[1], dev_losses]))
    _legend(panel, "upper right" if len(made) > _FEW_POINTS else "best")


def _draw_metric(panel: "Axes", scores: list[Scored]) -> None:
    """Draw the score by the task's metric; after a change of metric or signature, the last one."""
    last = next(score for score in reversed(scores) if score.score is not None)
    set_title(panel, f"development {last.metric}")
    kind = (last.metric, last.signature)
    same = [s for s in scores if (s.metric, s.signature) == kind and s.score is not None]
    scored, values = _line(same, [score.score or 0 for score in same])
    _plot(panel, scored, values, _DEV)
    best = _best(same)
    if best and best.score is not None:
        by = "" if best.best_by == "metric" else " by loss"
        _mark(panel, best.step, best.score, f"best{by}: {best.score:.2f}, step {best.step:,}")
    if last.higher_is_better:
        panel.set_ylim(0, max(1.08 * values.max(initial=0), 1))
    else:
        zoom(panel, values)
    corner: LegendLocation = "lower right" if last.higher_is_better else "upper right"
    _legend(panel, corner, heading=last.signature)


def _draw_rate(panel: "Axes", steps: list[Stepped]) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    set_title(panel, "learning rate")
    made, rates = _line(steps, [event.learning_rate for event in steps])
    kept = _evenly_spaced(len(made))
    _plot(panel, made[kept], rates[kept], _OTHER)
    panel.set_ylim(0, 1.1 * rates.max(initial=0) or 1)
    panel.yaxis.set_major_locator(MaxNLocator(4, steps=_ROUND))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate:.1e}" if rate else "0"))


def _draw_speed(panel: "Axes", steps: list[Stepped]) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    set_title(panel, "source and target tokens per second")
    made, speeds = _line(steps, [event.tokens_per_s for event in steps])
    _plot_rough(panel, made, speeds, _OTHER)
    _plot(panel, *_smoothed(made, speeds), _OTHER)
    panel.set_ylim(0, 1.15 * np.quantile(speeds, 0.99) if speeds.any() else 1)
    panel.yaxis.set_major_locator(MaxNLocator(4, integer=True, steps=_ROUND))
    panel.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _plot(panel: "Axes", x: Numbers, y: Numbers, colour: str, label: str = "") -> None:
    marker = "." if len(x) <= _FEW_POINTS else ""
    panel.plot(x, y, color=colour, linewidth=1.5, marker=marker, label=label or None)


def _plot_rough(panel: "Axes", x: Numbers, y: Numbers, colour: str) -> None:
    panel.plot(*_envelope(x, y), color=colour, linewidth=0.5, alpha=0.35)


def _mark(panel: "Axes", step: int, value: float, label: str) -> None:
    [star] = panel.plot([step], [value], "*", color=_DEV, markersize=14, zorder=5, label=label)
    star.set_markeredgecolor("white")
    star.set_clip_on(False)


def _legend(panel: "Axes", place: LegendLocation, *, heading: str = "") -> None:
    handles, labels = panel.get_legend_handles_labels()
    if handles or heading:
        legend = panel.legend(handles, labels, loc=place, fontsize=9, framealpha=0.8, edgecolor="w")
        legend.set_title(heading)
        legend.get_title().set_fontsize(7)


def _best(scores: list[Scored]) -> Scored | None:
    return next((score for score in reversed(scores) if score.best), None)


def zoom(panel: "Axes", values: Numbers) -> None:
    """Cut off the steep start of a curve where it would flatten the rest."""
    if not len(values):
        panel.set_ylim(0, 1)
        return
    low, high = values.min(), values.max()
    top = min(high, low + 2.5 * (np.quantile(values, 0.95) - low)) if len(values) > 20 else high
    margin = 0.06 * (top - low) or 0.5
    panel.set_ylim(low - margin, top + margin)


def _line(events: Sequence[Stepped | Scored], values: list[float]) -> tuple[Numbers, Numbers]:
    """Return the steps and values of a line, without the points that are not finite."""
    x = np.array([event.step for event in events], dtype=np.float64)
    y = np.array(values, dtype=np.float64)
    finite = np.isfinite(y)
    return x[finite], y[finite]


def _smoothed(x: Numbers, y: Numbers) -> tuple[Numbers, Numbers]:
    """Average each point with its neighbours, as many before as after except at the end."""
    reach = len(x) // 60
    kept = _evenly_spaced(len(x))
    # Fewer neighbours at the steep start, so as not to bend it.
    means = [y[i - min(reach, i) : i + min(reach, i) + 1].mean() for i in kept]
    return x[kept], np.array(means, dtype=np.float64)


def _evenly_spaced(count: int) -> NDArray[np.int64]:
    """Choose which points to draw, the first and the last among them."""
    return np.linspace(0, count - 1, min(count, _MAX_POINTS)).round().astype(np.int64)


def _envelope(x: Numbers, y: Numbers) -> tuple[Numbers, Numbers]:
    """Keep the lowest and the highest point of each section of a rough line."""
    if len(x) <= _MAX_POINTS:
        return x, y
    sections = np.array_split(np.arange(len(x)), _MAX_POINTS // 2)
    ends = [sorted((part[y[part].argmin()], part[y[part].argmax()])) for part in sections]
    kept = np.array(ends).ravel()
    return x[kept], y[kept]
