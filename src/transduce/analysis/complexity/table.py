"""Table 1 with what was measured beside what the paper has, and notes on how it was measured."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from transduce.analysis.complexity.fit import PowerLaw, Values, fit_power_law
from transduce.analysis.complexity.layers import LAYERS
from transduce.analysis.complexity.records import (
    LayerCost,
    LayerMeasurements,
    PathLength,
    SkippedSizes,
)
from transduce.errors import counted

ATTENTION, RECURRENT = "self-attention", "recurrent"


@dataclass(frozen=True)
class ComplexityRow:
    """One layer: what the paper has, and what was measured."""

    layer: str
    paper_operations: str
    count: str  # exponents of n and d, as of time and memory
    time: str
    memory: str
    paper_sequential: str
    sequential: str
    paper_path: str
    path: str  # every output on every input, and the same of causal layers


def complexity_rows(measured: LayerMeasurements) -> list[ComplexityRow]:
    """Return a row for each layer, in the paper's order."""
    return [
        ComplexityRow(
            layer=kind.name,
            paper_operations=kind.operations,
            **{name: str(law or "") for name, law in fits(measured, kind.name).items()},
            paper_sequential=kind.sequential,
            sequential=_sequential(measured, kind.name),
            paper_path=kind.path,
            path=", ".join(_paths(measured, kind.name)),
        )
        for kind in LAYERS
    ]


def fits(measured: LayerMeasurements, layer: str) -> dict[str, PowerLaw | None]:
    """Fit the operations, the time and the memory of a layer."""
    costs = [cost for cost in measured.costs if cost.layer == layer]
    counts = [count for count in measured.operations if count.layer == layer]
    values: dict[str, Values] = {
        "count": {(count.n, count.d): count.operations for count in counts},
        "time": {(cost.n, cost.d): cost.seconds for cost in costs},
        "memory": {(cost.n, cost.d): max(cost.peak_bytes, 1) for cost in costs},
    }
    return {name: fit_power_law(of_sizes) for name, of_sizes in values.items()}


def connected_n(measured: LayerMeasurements) -> int | None:
    """Return the largest n of which paths were found."""
    return max((path.n for path in measured.paths), default=None)


def notes(measured: LayerMeasurements) -> list[str]:
    """Return lines that say how each column was measured, and what is missing."""
    on = measured.measured_on
    return [
        f"Measured on {on.device} in {on.precision} with torch {on.torch}, "
        f"{counted(on.threads, 'thread')}, one sentence; k={measured.k}, "
        f"r={measured.r}; heads of 64.",
        "Count: multiplications and additions of matrix products in a forward pass. Time: the "
        "fastest of several runs, forward and backward. Memory: the most in both passes, without "
        "the weights and the input.",
        *_fitted_points(measured),
        *_deviation(measured),
        "Sequential: the longest chain of torch's operations in a forward pass, each of which "
        "needs the result of the one before it; an LSTM as a loop over its cell.",
        *_kernel_lines(measured),
        "Longest path, by gradients: how often one attention, one convolution or one step of the "
        "recurrence must be applied until every output depends on every input; and, where no "
        "position sees later ones, until every output depends on every input up to it.",
        *_recurrent_layers(measured),
        *_crossings(measured),
        *_skipped(measured),
    ]


def _sequential(measured: LayerMeasurements, layer: str) -> str:
    counts = [(one.n, one.forward) for one in measured.sequential if one.layer == layer]
    if len({count for _, count in counts}) <= 1:
        return f"{counts[0][1]}" if counts else ""
    (first_n, first), (last_n, last) = counts[0], counts[-1]
    slope, rest = divmod(last - first, last_n - first_n)
    offset = first - slope * first_n
    if rest == 0 and all(count == slope * n + offset for n, count in counts):
        return f"{slope}·n{offset:+}"
    return f"{first}–{last}"


def _paths(measured: LayerMeasurements, layer: str) -> Iterator[str]:
    n = connected_n(measured)
    for path in measured.paths:
        if path.layer == layer and path.n == n:
            yield _length(path)


def _length(path: PathLength) -> str:
    return "never" if path.operations is None else f"{path.operations:,}"


def _fitted_points(measured: LayerMeasurements) -> Iterator[str]:
    """Say which sizes the exponents come from, once for all layers that have the same."""
    layers: dict[tuple[str, str], list[str]] = {}
    for kind in LAYERS:
        for name, law in fits(measured, kind.name).items():
            if law is not None:
                what = "counts" if name == "count" else "time and memory"
                points = f"n={_listed(law.n)}; d={_listed(law.d)}"
                of_points = layers.setdefault((what, points), [])
                if kind.name.strip() not in of_points:
                    of_points.append(kind.name.strip())
    for (what, points), names in sorted(layers.items()):
        whose = "all layers" if len(names) == len(LAYERS) else "; ".join(names)
        yield f"Exponents of {what} fitted to {points} ({whose})."


def _deviation(measured: LayerMeasurements) -> Iterator[str]:
    laws = {kind.name.strip(): fits(measured, kind.name)["time"] for kind in LAYERS}
    factors = {name: law.worst_factor for name, law in laws.items() if law is not None}
    if factors:
        worst = max(factors, key=lambda name: factors[name])
        yield f"No time is off its fit by more than a factor of {factors[worst]:.2f} ({worst})."


def _kernel_lines(measured: LayerMeasurements) -> Iterator[str]:
    by_layer: dict[str, list[str]] = {}
    for count in measured.kernels:
        by_layer.setdefault(count.layer.strip(), []).append(f"{count.one_after_another:,}")
    if by_layer:
        sizes = _listed(sorted({count.n for count in measured.kernels}))
        shown = "; ".join(f"{layer} {', '.join(counts)}" for layer, counts in by_layer.items())
        yield (
            f"Kernels that the GPU ran one after another, forward and backward, at n={sizes} and "
            f"d={measured.kernels[0].d:,}: {shown}."
        )


def _recurrent_layers(measured: LayerMeasurements) -> Iterator[str]:
    for path in measured.paths:
        if path.layer == RECURRENT and path.n == connected_n(measured) and not path.causal:
            yield (
                f"Recurrence, n={path.n:,}: "
                f"{counted(path.layers or 0, 'layer connects', 'layers connect')} all positions, "
                f"by a path of {_length(path)} steps."
            )


def _crossings(measured: LayerMeasurements) -> Iterator[str]:
    """Say up to which n self-attention was faster than recurrence; by Table 1, up to n = d."""
    ends = []
    for d in sorted({cost.d for cost in measured.costs}):
        attention, recurrent = (
            {cost.n: cost for cost in measured.costs if (cost.layer, cost.d) == (layer, d)}
            for layer in (ATTENTION, RECURRENT)
        )
        shared = sorted(attention.keys() & recurrent.keys())
        faster = _first_faster(shared, attention, recurrent)
        if shared:
            beyond = " or more" if faster and faster[-1] == shared[-1] else ""
            ends.append(f"n={faster[-1]:,}{beyond} at d={d:,}" if faster else f"no n at d={d:,}")
    if ends:
        yield f"Self-attention is faster than recurrence up to {', '.join(ends)}."


def _first_faster(
    sizes: Sequence[int], some: dict[int, LayerCost], others: dict[int, LayerCost]
) -> list[int]:
    """Return the sizes, from the first on, at which some are faster than others."""
    faster = []
    for n in sizes:
        if some[n].seconds >= others[n].seconds:
            break
        faster.append(n)
    return faster


def _skipped(measured: LayerMeasurements) -> Iterator[str]:
    """Say what is missing: of widths that end at the same n, with the reason of the largest."""
    together: dict[tuple[str, int], list[SkippedSizes]] = {}
    for skip in measured.skipped:
        together.setdefault((skip.layer.strip(), skip.n), []).append(skip)
    for (layer, n), skips in together.items():
        widths = _listed([skip.d for skip in skips])
        yield f"Not measured: {layer}, d={widths}, from n={n:,}: {skips[-1].why}."


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(f"{size:,}" for size in sizes)
