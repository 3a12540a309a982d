"""Measures all layers over sizes, within a time and within the memory that is free."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

from transduce.analysis.complexity.counting import (
    count_operations,
    kernel_times,
    longest_chain,
    one_after_another,
)
from transduce.analysis.complexity.layers import LAYERS, LayerKind, LayerShape
from transduce.analysis.complexity.measuring import MIN_RUNS, LayerBench
from transduce.analysis.complexity.options import PROFILED_N, TRACED_N, GridOptions
from transduce.analysis.complexity.paths import layers_to_connect, path_length
from transduce.analysis.complexity.records import (
    DependentOperations,
    KernelCount,
    LayerCost,
    LayerMeasurements,
    MeasuredOn,
    OperationCount,
    PathLength,
    SkippedSizes,
)
from transduce.hardware.devices import choose_device, on_device
from transduce.hardware.free_memory import free_bytes

SHARE_OF_MEMORY = 0.8
"""How much of the free memory a measurement may take."""

Report = Callable[[str], None]


def measure_layers(options: GridOptions, report: Report) -> LayerMeasurements:
    """Measure all that Table 1 speaks of; `report` gets a line for each layer and step."""
    device = choose_device(options.device, option="--device")
    precision = options.precision
    if precision == "auto":
        precision = "bf16" if device.type == "cuda" else "float32"
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    report("counting operations")
    operations, sequential = tuple(_operations(options)), tuple(_sequential(options))
    counts = {(count.layer, count.n, count.d): count.operations for count in operations}
    with on_device(device):
        kernels = list(_kernels(options, device, dtype, report)) if device.type == "cuda" else []
        series = _Series(options, device, dtype, report, counts)
        series.measure()
    return LayerMeasurements(
        measured_on=MeasuredOn(
            device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
            precision=precision,
            torch=torch.__version__,
            threads=torch.get_num_threads(),
        ),
        k=options.k,
        r=options.r,
        costs=tuple(series.costs),
        skipped=tuple(series.skipped),
        operations=operations,
        sequential=sequential,
        kernels=tuple(kernels),
        paths=tuple(_paths(options, report)),
    )


@dataclass
class _Series:
    """The measurements of all layers and widths, from the smallest n to the largest.

    Before each, its time and memory are estimated from the one before. At first the time that is
    left is shared equally by the layers and widths; then the quickest next may take all of it.
    """

    options: GridOptions
    device: torch.device
    dtype: torch.dtype
    report: Report
    counts: dict[tuple[str, int, int], int]  # operations by layer, n and d
    costs: list[LayerCost] = field(default_factory=list)
    skipped: list[SkippedSizes] = field(default_factory=list)

    def measure(self) -> None:
        """Measure until all sizes are done or skipped."""
        ends = time.perf_counter() + self.options.seconds
        left = self._measure_in_equal_shares(ends)
        self._measure_with_the_rest(left, ends)

    def _measure_in_equal_shares(self, ends: float) -> list[tuple[LayerKind, int, int]]:
        """Measure what fits into equal shares of the time; return layers, d and n that did not."""
        live = list(itertools.product(LAYERS, self.options.d))
        left: list[tuple[LayerKind, int, int]] = []
        for n in self.options.n:
            self.report(f"n={n:,}: {len(live)} layers, {ends - time.perf_counter():.0f} s left")
            remaining = list(live)
            for kind, d in live:
                share = max(0.0, ends - time.perf_counter()) / len(remaining)
                if self._obstacle(kind, n, d, share):
                    remaining.remove((kind, d))
                    left.append((kind, d, n))
                elif why := self._try(kind, n, d):
                    remaining.remove((kind, d))
                    self._skip(kind, d, n, why)
            live = remaining
        return left

    def _measure_with_the_rest(self, left: list[tuple[LayerKind, int, int]], ends: float) -> None:
        """Measure what is left, always the quickest next; name what is skipped."""
        while left:
            kind, d, n = quickest = min(left, key=lambda size: self._expected_seconds(*size))
            left.remove(quickest)
            rest = max(0.0, ends - time.perf_counter())
            self.report(f"n={n:,}, d={d:,}, {kind.name.strip()}: {rest:.0f} s left")
            if why := self._obstacle(kind, n, d, rest) or self._try(kind, n, d):
                self._skip(kind, d, n, why)
            else:
                left += [(kind, d, larger) for larger in self.options.n if larger > n][:1]
        order = [kind.name for kind in LAYERS]
        self.skipped.sort(key=lambda size: (order.index(size.layer), size.d))

    def _skip(self, kind: LayerKind, d: int, n: int, why: str) -> None:
        self.skipped.append(SkippedSizes(layer=kind.name, d=d, n=n, why=why))

    def _obstacle(self, kind: LayerKind, n: int, d: int, share: float) -> str:
        """Return why a size should not be measured, or ''."""
        if share <= 0:
            return "the time was over"
        numbers = kind.numbers(n, _shape(self.options, d))
        needed = numbers * torch.finfo(self.dtype).bits / 8
        last = self._last(kind, d)
        if last is not None:
            needed = last.peak_bytes * numbers / kind.numbers(last.n, _shape(self.options, d))
        seconds = self._expected_seconds(kind, d, n)
        free = SHARE_OF_MEMORY * free_bytes(self.device)
        if needed > free:
            return f"it would need {_gib(needed)} of memory; {_gib(free)} may be used"
        if seconds > share:
            return f"it would take {seconds:.2g} s; {share:.2g} s were left for it"
        return ""

    def _expected_seconds(self, kind: LayerKind, d: int, n: int) -> float:
        """Return how long a size will take, by the last one that was measured; 0 if none was."""
        last = self._last(kind, d)
        if last is None:
            return 0.0
        # One run warms up, and one is for the memory.
        return last.seconds * self._growth(kind.name, last.n, n, d) * (2 + MIN_RUNS)

    def _last(self, kind: LayerKind, d: int) -> LayerCost | None:
        done = [cost for cost in self.costs if (cost.layer, cost.d) == (kind.name, d)]
        return done[-1] if done else None

    def _growth(self, layer: str, earlier: int, n: int, d: int) -> float:
        """Return by what the operations of a layer grow; those of a recurrence grow as n."""
        earlier_count, count = (self.counts.get((layer, size, d)) for size in (earlier, n))
        return count / earlier_count if count and earlier_count else n / earlier

    def _try(self, kind: LayerKind, n: int, d: int) -> str:
        """Measure one size; return why it could not be, or ''."""
        try:
            bench = LayerBench(kind, n, _shape(self.options, d), self.device, self.dtype)
            self.costs.append(bench.measure())
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return "out of memory"
        except RuntimeError as fault:
            if "allocate memory" not in str(fault):
                raise
            return "out of memory"
        return ""


def _shape(options: GridOptions, d: int) -> LayerShape:
    return LayerShape(d, options.k, options.r)


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"


def _operations(options: GridOptions) -> Iterator[OperationCount]:
    for kind, d in itertools.product(LAYERS, options.d):
        for n in TRACED_N if kind.unrolled else options.n:
            count = count_operations(kind, n, _shape(options, d))
            yield OperationCount(layer=kind.name, n=n, d=d, operations=count)


def _sequential(options: GridOptions) -> Iterator[DependentOperations]:
    for kind, n in itertools.product(LAYERS, TRACED_N):
        forward, both = longest_chain(kind, n, _shape(options, min(options.d)))
        yield DependentOperations(layer=kind.name, n=n, forward=forward, both=both)


def _kernels(
    options: GridOptions, device: torch.device, dtype: torch.dtype, report: Report
) -> Iterator[KernelCount]:
    d = max(options.d)
    report(f"counting kernels at d={d}")
    for kind, n in itertools.product(LAYERS, PROFILED_N):
        if n <= max(options.n):
            bench = LayerBench(kind, n, _shape(options, d), device, dtype)
            times = kernel_times(bench.layer, bench.x)
            if not times:
                report("torch's profiler sees no kernels of this GPU: they are not counted")
                return
            yield KernelCount(
                layer=kind.name,
                n=n,
                d=d,
                kernels=len(times),
                one_after_another=one_after_another(times),
            )


def _paths(options: GridOptions, report: Report) -> Iterator[PathLength]:
    report("finding paths by gradients")
    rows = [kind for kind in LAYERS if not kind.is_variant]
    sizes = itertools.product(rows, options.connected_n, (False, True))
    for kind, n, causal in sizes:
        length = path_length(kind, n, k=options.k, r=options.r, causal=causal)
        layers = length
        if kind.step is not None:
            layers = layers_to_connect(kind, n, k=options.k, r=options.r, causal=causal)
        yield PathLength(layer=kind.name, n=n, causal=causal, operations=length, layers=layers)
