"""Times and memory by length: exponents, where one way overtakes another, a table, a picture."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from transduce.analysis.curves import set_title, style_panel
from transduce.analysis.pictures import save_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MIB = 2**20
COLOURS = {
    "attention": "#222222",
    "window": "#3b6fb6",
    "longformer": "#33834f",
    "linformer": "#c07f1c",
    "performer": "#7a55b3",
    "s4": "#d1495b",
    "mamba": "#0f9aa8",
}


@dataclass(frozen=True)
class Point:
    """What one way takes for one sentence of n positions."""

    way: str
    n: int
    seconds: float
    peak_bytes: int
    runs: int


@dataclass(frozen=True)
class LeftOut:
    """The first length at which a way was not measured any more."""

    way: str
    n: int
    why: str


@dataclass(frozen=True)
class Costs:
    """All that was measured, and on what."""

    measured_on: dict[str, Any]
    points: tuple[Point, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def ways(self) -> list[str]:
        """All ways, in the order in which they were measured."""
        return [*dict.fromkeys(point.way for point in self.points)]

    @property
    def lengths(self) -> list[int]:
        """All lengths."""
        return sorted({point.n for point in self.points})

    def of(self, way: str) -> dict[int, Point]:
        """Return the points of a way by their length."""
        return {point.n: point for point in self.points if point.way == way}


Value = Callable[[Point], float]


def seconds(point: Point) -> float:
    """Return the time of a point."""
    return point.seconds


def memory(point: Point) -> float:
    """Return the memory of a point; a byte at least, as exponents are of positive values."""
    return max(1.0, point.peak_bytes)


def write_json(costs: Costs, path: Path) -> None:
    """Write all that was measured."""
    path.write_text(json.dumps(asdict(costs), indent=1) + "\n", encoding="utf-8")


def read_json(path: Path) -> Costs:
    """Read what `write_json` wrote."""
    content = json.loads(path.read_text(encoding="utf-8"))
    points = tuple(Point(**point) for point in content["points"])
    left_out = tuple(LeftOut(**one) for one in content["left_out"])
    return Costs(content["measured_on"], points, left_out)


def exponent(costs: Costs, way: str, value: Value, *, least: int) -> float | None:
    """Fit value ≈ c · n^a to the lengths from `least` on; None if fewer than two were measured."""
    points = [point for n, point in costs.of(way).items() if n >= least]
    if len(points) < 2:
        return None
    x, y = (np.log([one(point) for point in points]) for one in (lambda point: point.n, value))
    return float(np.polyfit(x, y, 1)[0])


def cheaper_from(costs: Costs, way: str, other: str, value: Value) -> int | None:
    """Return the least length from which on a way takes less than another; None: it never does."""
    some, others = costs.of(way), costs.of(other)
    least = None
    for n in sorted(some.keys() & others.keys(), reverse=True):
        if value(some[n]) >= value(others[n]):
            break
        least = n
    return least


def markdown(costs: Costs, *, least: int, full: Sequence[str]) -> str:
    """Return two tables and what follows from them; `full` are the ways that attend to all."""
    on = ", ".join(f"{name} {value}" for name, value in costs.measured_on.items())
    parts = [
        f"Measured on: {on}.",
        "Milliseconds of a sentence, forward and backward:",
        "\n".join(_table(costs, seconds, least=least, unit=1e-3, full=full)),
        "MiB at most in both passes, without the weights and the input:",
        "\n".join(_table(costs, memory, least=least, unit=MIB, full=full)),
        *("\n".join(_ratios(costs, other)) for other in full if other in costs.ways),
        "\n".join(f"- Left out: {one.way} from n = {one.n:,}: {one.why}" for one in costs.left_out),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(
    costs: Costs, value: Value, *, least: int, unit: float, full: Sequence[str]
) -> Iterator[str]:
    baselines = [way for way in full if way in costs.ways]
    heads = [f"{n:,}" for n in costs.lengths]
    heads += [f"exponent from {least:,} on", *(f"less than {way} from" for way in baselines)]
    yield f"| | {' | '.join(heads)} |"
    yield f"|---|{'---|' * len(heads)}"
    for way in costs.ways:
        points = costs.of(way)
        cells = [_number(value(points[n]) / unit) if n in points else "–" for n in costs.lengths]
        found = exponent(costs, way, value, least=least)
        cells.append("–" if found is None else f"{found:.2f}")
        for other in baselines:
            start = cheaper_from(costs, way, other, value)
            never = "–" if way == other else "never"
            cells.append(never if start is None else f"{start:,}")
        yield f"| {way} | {' | '.join(cells)} |"


def _ratios(costs: Costs, other: str) -> Iterator[str]:
    """Compare all ways with another at the largest length that both have."""
    yield f"Compared with {other}:\n"
    for way in costs.ways:
        shared = costs.of(way).keys() & costs.of(other).keys()
        if way == other or not shared:
            continue
        n = max(shared)
        one, full = costs.of(way)[n], costs.of(other)[n]
        of_time, of_memory = (value(one) / value(full) for value in (seconds, memory))
        yield f"- {way} at n = {n:,}: {of_time:.3f} of the time, {of_memory:.3f} of the memory"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def draw(costs: Costs, path: Path) -> None:
    """Draw time and memory over the length."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 5), dpi=150, layout="constrained")
    left, right = figure.subplots(1, 2)
    on = costs.measured_on
    where = f"{on['device']}, {on['precision']}"
    _draw(left, f"milliseconds of a sentence, forward and backward ({where})", costs, seconds, 1e-3)
    _draw(right, f"MiB at most, forward and backward ({where})", costs, memory, MIB)
    right.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    save_picture(figure, path)


def _draw(panel: "Axes", title: str, costs: Costs, value: Value, unit: float) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    style_panel(panel)
    set_title(panel, title)
    for way in costs.ways:
        name, _, variant = way.partition(", ")
        points = costs.of(way)
        heights = [value(point) / unit for point in points.values()]
        style = "--" if variant == "packed" else ":" if variant else "-"
        panel.plot(
            [*points], heights, style, color=COLOURS.get(name), linewidth=1.5, marker=".", label=way
        )
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.xaxis.set_major_formatter(lambda number, _: f"{number:,.0f}")
    panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
    panel.yaxis.set_major_formatter(lambda number, _: f"{number:,g}")
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.set_xlabel("positions n", fontsize=9, color="#333333")


def expected(points: Sequence[Point], n: int, value: Value) -> float:
    """Guess the value at the next length from those before: a little more than it grew so far."""
    if not points:
        return 0.0
    last, grown = points[-1], 2.0
    if len(points) > 1:
        before = points[-2]
        grown = math.log(value(last) / value(before)) / math.log(last.n / before.n) + 0.3
    return float(value(last) * (n / last.n) ** min(max(grown, 1.0), 2.3))
