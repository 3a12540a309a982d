"""Table 1 as a picture: time, memory, sequential operations and paths over the length n."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.analysis.complexity.layers import LAYERS, LayerKind
from transduce.analysis.complexity.records import LayerMeasurements
from transduce.analysis.complexity.table import fits
from transduce.analysis.curves import set_title, style_panel
from transduce.analysis.pictures import check_picture, save_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {
    "self-attention": "#3b6fb6",
    "recurrent": "#d1495b",
    "convolutional, contiguous": "#c07f1c",
    "convolutional, dilated": "#7a55b3",
    "restricted self-attention": "#33834f",
}
_STYLES = ("-", ":", "--")  # a row of the paper, then its variants

Line = tuple[LayerKind, list[tuple[int, float]], str]
"""A layer, its points and its label."""


def draw_complexity(measured: LayerMeasurements, path: Path) -> None:
    """Draw all layers at the largest width that was measured."""
    check_picture(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 8), dpi=150, layout="constrained")
    panels = figure.subplots(2, 2)
    on = measured.measured_on
    d = max((cost.d for cost in measured.costs), default=0)
    where = f"d={d:,}, {on.device}, {on.precision}"
    _draw(panels[0][0], f"milliseconds, forward and backward ({where})", _times(measured, d))
    _draw(panels[0][1], f"MiB, forward and backward ({where})", _memory(measured, d))
    _draw(panels[1][0], "operations that must follow one another, forward", _chains(measured))
    _draw(panels[1][1], "longest path between two positions, by gradients", _lengths(measured))
    save_picture(figure, path)


def _times(measured: LayerMeasurements, d: int) -> Iterable[Line]:
    for kind in LAYERS:
        costs = [cost for cost in measured.costs if (cost.layer, cost.d) == (kind.name, d)]
        points = [(cost.n, 1e3 * cost.seconds) for cost in costs]
        yield kind, points, f"{_full_name(kind)}: {fits(measured, kind.name)['time'] or ''}"


def _memory(measured: LayerMeasurements, d: int) -> Iterable[Line]:
    for kind in LAYERS:
        costs = [cost for cost in measured.costs if (cost.layer, cost.d) == (kind.name, d)]
        points = [(cost.n, cost.peak_bytes / 2**20) for cost in costs]
        yield kind, points, f"{_full_name(kind)}: {fits(measured, kind.name)['memory'] or ''}"


def _chains(measured: LayerMeasurements) -> Iterable[Line]:
    for kind in LAYERS:
        if not kind.is_variant:
            counts = [one for one in measured.sequential if one.layer == kind.name]
            points = [(one.n, float(one.forward)) for one in counts]
            yield kind, points, f"{kind.name}: {kind.sequential} in the paper"


def _lengths(measured: LayerMeasurements) -> Iterable[Line]:
    for kind in LAYERS:
        if not kind.is_variant:
            paths = [path for path in measured.paths if path.layer == kind.name and not path.causal]
            points = [(path.n, float(path.operations)) for path in paths if path.operations]
            yield kind, points, f"{kind.name}: {kind.path} in the paper"


def _full_name(kind: LayerKind) -> str:
    return f"… {kind.name.strip()}" if kind.is_variant else kind.name


def _draw(panel: "Axes", title: str, lines: Iterable[Line]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    style_panel(panel)
    set_title(panel, title)
    colour, variant = "#666666", 0
    for kind, points, label in lines:
        variant = variant + 1 if kind.is_variant else 0
        colour = _COLOURS.get(kind.name, colour)
        style = "-." if kind.levels_differ else _STYLES[variant]  # may lie on another line
        if points:
            x, y = zip(*points, strict=True)
            panel.plot(x, y, style, color=colour, linewidth=1.5, marker=".", label=label)
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.set_xlabel("positions n", fontsize=9, color="#333333")
    panel.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
