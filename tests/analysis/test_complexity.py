"""Table 1, measured: fits, paths by gradients, sequential operations, and limits."""

import math
from collections import deque
from dataclasses import replace
from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from transduce.analysis.complexity import grid, options
from transduce.analysis.complexity.counting import (
    count_operations,
    longest_chain,
    one_after_another,
)
from transduce.analysis.complexity.fit import fit_power_law
from transduce.analysis.complexity.grid import measure_layers
from transduce.analysis.complexity.layers import (
    LAYERS,
    LayerKind,
    LayerShape,
    UnrolledRecurrence,
    drawn,
)
from transduce.analysis.complexity.measuring import MIN_RUNS, LayerBench
from transduce.analysis.complexity.options import ALL_D, ALL_N, GridOptions, grid_options
from transduce.analysis.complexity.paths import layers_to_connect, path_length
from transduce.analysis.complexity.records import LayerCost, LayerMeasurements
from transduce.analysis.complexity.table import complexity_rows, notes
from transduce.errors import InputError

KINDS = {kind.name: kind for kind in LAYERS}
ROWS = [kind.name for kind in LAYERS if not kind.is_variant]
ATTENTION, RECURRENT, CONTIGUOUS, DILATED, RESTRICTED = ROWS
lengths, kernels = st.integers(2, 24), st.sampled_from([3, 5, 7])


# --- fits -----------------------------------------------------------------------------------------


@given(st.floats(0, 3), st.floats(0, 3), st.floats(1e-9, 1e3))
def test_exponents_of_a_power_law_are_recovered(a: float, b: float, factor: float) -> None:
    values = {(n, d): factor * n**a * d**b for n, d in product(ALL_N, ALL_D)}
    law = fit_power_law(values)
    assert law is not None
    assert law.n_exponent == pytest.approx(a, abs=1e-6)
    assert law.d_exponent == pytest.approx(b, abs=1e-6)
    assert (law.n, law.d) == ((4096, 8192, 16384), (256, 512, 1024))
    assert law.worst_factor == pytest.approx(1)


def test_the_cost_of_starting_does_not_hide_the_large_end() -> None:
    values = {(n, d): 1e-4 + 1e-12 * n**2 * d for n, d in product(ALL_N, ALL_D)}
    law = fit_power_law(values)
    assert law is not None
    assert law.n_exponent == pytest.approx(2, abs=0.05)


def test_only_sizes_that_all_fitted_widths_have_are_fitted() -> None:
    values = {(n, 64): float(n) for n in (16, 32, 64, 128, 256)}
    values |= {(n, 128): 2.0 * n for n in (16, 32, 64)} | {(16, 256): 99.0}
    law = fit_power_law(values)
    assert law is not None
    assert (law.n, law.d) == ((16, 32, 64), (64, 128))
    assert str(law) == "n^1.00 d^1.00"


def test_one_width_has_no_exponent_of_d_and_one_length_no_fit() -> None:
    law = fit_power_law({(16, 64): 1.0, (32, 64): 2.0})
    assert law is not None
    assert law.d_exponent is None
    assert fit_power_law({(16, 64): 1.0}) is None
    assert fit_power_law({}) is None


# --- paths ----------------------------------------------------------------------------------------


def farthest_pair(n: int, jumps: list[int]) -> int:
    """Search a graph in breadth: how many jumps lie between two positions, at most."""
    longest = 0
    for start in range(n):
        distance, queue = {start: 0}, deque([start])
        while queue:
            at = queue.popleft()
            for there in (at + jump for jump in jumps):
                if 0 <= there < n and there not in distance:
                    distance[there] = distance[at] + 1
                    queue.append(there)
        longest = max(longest, *distance.values())
    return longest


@settings(max_examples=15)
@given(lengths, kernels, st.booleans())
def test_the_path_of_contiguous_convolutions_is_that_of_the_graph(
    n: int, k: int, causal: bool
) -> None:
    found = path_length(KINDS[CONTIGUOUS], n, k=k, r=4, causal=causal)
    reach = k - 1 if causal else (k - 1) // 2
    jumps = list(range(-reach, 1)) if causal else list(range(-reach, reach + 1))
    assert found == farthest_pair(n, jumps) == math.ceil((n - 1) / reach)


@settings(max_examples=15)
@given(lengths, st.integers(2, 12), st.booleans())
def test_the_path_of_restricted_attention_is_that_of_the_graph(
    n: int, r: int, causal: bool
) -> None:
    found = path_length(KINDS[RESTRICTED], n, k=3, r=r, causal=causal)
    reach = r - 1 if causal else r // 2
    jumps = list(range(-reach, 1)) if causal else list(range(-reach, reach + 1))
    assert found == farthest_pair(n, jumps) == math.ceil((n - 1) / reach)


@settings(max_examples=15)
@given(lengths, kernels, st.booleans())
def test_the_path_of_dilated_convolutions_is_a_logarithm(n: int, k: int, causal: bool) -> None:
    base = k if causal else (k + 1) // 2
    digits = next(count for count in range(1, 9) if base**count >= n)
    assert path_length(KINDS[DILATED], n, k=k, r=4, causal=causal) == digits


@settings(max_examples=10)
@given(lengths, st.booleans())
def test_attention_has_a_path_of_1_and_recurrence_of_n(n: int, causal: bool) -> None:
    assert path_length(KINDS[ATTENTION], n, k=3, r=4, causal=causal) == 1
    assert path_length(KINDS[RECURRENT], n, k=3, r=4, causal=causal) == n
    assert layers_to_connect(KINDS[RECURRENT], n, k=3, r=4, causal=causal) == 1


def test_centred_kernels_dilated_by_powers_of_k_never_connect_some_pairs() -> None:
    def layer(shape: LayerShape, level: int) -> nn.Module:
        convolution = KINDS[DILATED].build(shape)
        convolution.dilation = shape.k**level
        return convolution

    kind = replace(KINDS[DILATED], stacked=layer)
    assert layers_to_connect(kind, 9, k=3, r=4, causal=False) is None
    assert layers_to_connect(kind, 9, k=3, r=4, causal=True) == 2


def depends(kind: LayerKind, shape: LayerShape, n: int, layers: int) -> Tensor:
    """Differentiate a whole stack of layers: which outputs depend on which inputs."""
    stack = nn.Sequential(
        *(drawn(kind.layer_of_stack(shape, level), seed=level) for level in range(layers))
    ).double()
    x = torch.randn(1, n, shape.d, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    jacobian = torch.autograd.functional.jacobian(stack, x)  # type: ignore[no-untyped-call]
    assert isinstance(jacobian, Tensor)
    return (jacobian[0, :, :, 0] != 0).any(dim=3).any(dim=1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ROWS)
def test_a_real_stack_of_so_many_layers_connects_all_pairs_and_one_less_does_not(
    name: str, causal: bool
) -> None:
    n, shape = 11, LayerShape(4, 3, 6, causal)
    wanted = torch.ones(n, n, dtype=torch.bool)
    wanted = wanted.tril() if causal else wanted
    layers = layers_to_connect(KINDS[name], n, k=3, r=6, causal=causal)
    assert layers is not None
    assert torch.equal(depends(KINDS[name], shape, n, layers), wanted)
    if layers > 1:
        assert not torch.equal(depends(KINDS[name], shape, n, layers - 1), wanted)


# --- sequential operations ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.name.strip())
def test_only_recurrence_has_more_sequential_operations_for_longer_sentences(
    kind: LayerKind,
) -> None:
    shape = LayerShape(8, r=4)
    chains = [longest_chain(kind, n, shape) for n in (40, 80, 120)]
    forward, both = zip(*chains, strict=True)
    if kind.name == RECURRENT:
        assert forward[1] - forward[0] == forward[2] - forward[1] == 40 * 7
        assert both[1] - both[0] == both[2] - both[1] > 40 * 7
    else:
        assert len(set(forward)) == len(set(both)) == 1


def test_a_chain_counts_what_depends_on_what() -> None:
    class Wide(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            side = x.exp().sin().cos()
            return (x + 1).transpose(1, 2).transpose(1, 2) * side

    kind = replace(KINDS[ATTENTION], build=lambda _: Wide())
    assert longest_chain(kind, 5, LayerShape(4))[0] == 4


def test_the_unrolled_recurrence_is_an_lstm() -> None:
    unrolled = drawn(UnrolledRecurrence(LayerShape(6)), seed=0).double()
    lstm = nn.LSTM(6, 6, batch_first=True).double()
    lstm.load_state_dict({f"{name}_l0": value for name, value in unrolled.state_dict().items()})
    x = torch.randn(2, 9, 6, dtype=torch.float64)
    assert_close(unrolled(x), lstm(x)[0], rtol=0, atol=1e-12)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), max_size=7))
def test_kernels_one_after_another_are_the_largest_set_that_does_not_overlap(
    drawn_times: list[tuple[int, int]],
) -> None:
    times = [(float(start), float(start + length)) for start, length in drawn_times]
    largest = 0
    for chosen in product([False, True], repeat=len(times)):
        kept = sorted(time for time, is_in in zip(times, chosen, strict=True) if is_in)
        if all(left[1] <= right[0] for left, right in pairwise(kept)):
            largest = max(largest, len(kept))
    assert one_after_another(times) == largest


# --- operations, memory, limits -------------------------------------------------------------------


def test_counted_operations_are_the_papers() -> None:
    n, d, shape = 96, 128, LayerShape(128, k=5, r=32)
    assert count_operations(KINDS[ATTENTION], n, shape) == 4 * n**2 * d
    assert count_operations(KINDS["  with projections"], n, shape) == 4 * n**2 * d + 8 * n * d**2
    assert count_operations(KINDS[RECURRENT], 16, shape) == 16 * 16 * d**2
    assert count_operations(KINDS[CONTIGUOUS], n, shape) == 2 * 5 * n * d**2
    assert count_operations(KINDS[DILATED], n, shape) == 2 * 5 * n * d**2


def test_the_memory_of_eq_1_step_by_step_holds_all_weights() -> None:
    device, shape = torch.device("cpu"), LayerShape(64)
    plain, fused = (
        LayerBench(KINDS[name], 512, shape, device, torch.float32).measure()
        for name in ("  eq. 1 step by step", ATTENTION)
    )
    weights = 4 * 512**2
    assert plain.peak_bytes >= plain.kept_bytes >= weights > fused.kept_bytes > 0


def measured(wanted: GridOptions) -> LayerMeasurements:
    return measure_layers(wanted, lambda _: None)


@pytest.mark.exhaustive
def test_sizes_that_do_not_fit_in_memory_are_skipped_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grid, "free_bytes", lambda _: 10 * 2**20)
    monkeypatch.setattr(options, "CONNECTED_N", (16,))
    found = measured(GridOptions(n=(16, 8192), d=(16,), r=4, device="cpu", seconds=1e9))
    plain = "  eq. 1 step by step"
    assert [cost.n for cost in found.costs if cost.layer == plain] == [16]
    [skipped] = [skip for skip in found.skipped if skip.layer == plain]
    assert skipped.n == 8192
    assert "GiB of memory" in skipped.why
    assert any("eq. 1 step by step, d=16, from n=8,192" in line for line in notes(found))


def test_without_time_nothing_is_timed_but_the_rest_is_there() -> None:
    found = measured(GridOptions(n=(16, 32), d=(8,), r=4, device="cpu", seconds=1e-9))
    assert found.costs == ()
    assert {skip.why for skip in found.skipped} == {"the time was over"}
    rows = {row.layer: row for row in complexity_rows(found)}
    assert (rows[RECURRENT].time, rows[RECURRENT].sequential) == ("", "7·n+2")
    assert (rows[CONTIGUOUS].path, rows[DILATED].path) == ("15, 8", "4, 3")
    assert rows[ATTENTION].count == "n^2.00"


class _Clock:
    """Time that passes only while a size is measured: n x d seconds, but attention hardly any."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def measure(self, bench: LayerBench) -> LayerCost:
        seconds = 0.001 if bench.kind.name == ATTENTION else float(bench.n * bench.shape.d)
        self.now += (2 + MIN_RUNS) * seconds
        sizes = {"layer": bench.kind.name, "n": bench.n, "d": bench.shape.d}
        costs = {"forward_s": seconds, "backward_s": 0.0, "kept_bytes": 1, "peak_bytes": 1}
        return LayerCost.model_validate(sizes | costs)


def test_the_time_that_some_sizes_leave_is_given_to_the_quickest_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At n=32 no convolution fits into its share. Then those with d=8 do, and nothing larger."""
    clock = _Clock()
    monkeypatch.setattr(grid, "time", clock)
    monkeypatch.setattr(LayerBench, "measure", lambda bench: clock.measure(bench))
    monkeypatch.setattr(grid, "LAYERS", [KINDS[row] for row in (ATTENTION, CONTIGUOUS, DILATED)])
    monkeypatch.setattr(options, "CONNECTED_N", (16,))
    seconds = (2 + MIN_RUNS) * (2 * 16 * (8 + 16) + 2 * 32 * 8 + 64 * 8 - 1)
    found = measured(GridOptions(n=(16, 32, 64), d=(8, 16), r=4, device="cpu", seconds=seconds))
    timed = {(cost.layer, cost.n, cost.d) for cost in found.costs}
    assert {(CONTIGUOUS, 32, 8), (DILATED, 32, 8), (ATTENTION, 64, 16)} <= timed
    assert len(timed) == 6 + 4 + 2, "all of attention, n=16 of the others, and these two"
    skipped = [(skip.layer, skip.d, skip.n) for skip in found.skipped]
    assert skipped == [
        (layer, d, n) for layer in (CONTIGUOUS, DILATED) for d, n in ((8, 64), (16, 32))
    ]
    assert {skip.why for skip in found.skipped} == {
        "it would take 2.6e+03 s; 2.6e+03 s were left for it"
    }


def test_a_size_for_which_memory_ran_out_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, tried = _Clock(), list[tuple[int, int]]()

    def measure(bench: LayerBench) -> LayerCost:
        tried.append((bench.n, bench.shape.d))
        if bench.n == 32 and bench.shape.d == 8:
            raise torch.OutOfMemoryError
        return clock.measure(bench)

    monkeypatch.setattr(grid, "time", clock)
    monkeypatch.setattr(LayerBench, "measure", measure)
    monkeypatch.setattr(grid, "LAYERS", [KINDS[ATTENTION]])
    monkeypatch.setattr(options, "CONNECTED_N", (16,))
    found = measured(GridOptions(n=(16, 32, 64), d=(8, 16), r=4, device="cpu", seconds=1e9))
    assert tried == [(16, 8), (16, 16), (32, 8), (32, 16), (64, 16)]
    assert [(skip.d, skip.n, skip.why) for skip in found.skipped] == [(8, 32, "out of memory")]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_is_measured_and_its_kernels_are_counted() -> None:
    found = measured(GridOptions(n=(16, 64), d=(64, 128), r=8, device="cuda"))
    assert found.skipped == ()
    assert len(found.costs) == 4 * len(LAYERS)
    assert all(cost.peak_bytes >= cost.kept_bytes > 0 for cost in found.costs)
    kernels = {(count.layer, count.n): count.one_after_another for count in found.kernels}
    assert kernels[ATTENTION, 64] == kernels[ATTENTION, 16] > 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n": "16,x"}, "--n '16,x'"),
        ({"n": ""}, "--n ''"),
        ({"n": "0"}, "--n '0'"),
        ({"d": "96"}, "--d 96"),
        ({"d": "7"}, "--d 7"),
        ({"k": 4}, "--k 4"),
        ({"r": 1}, "--r 1"),
        ({"seconds": 0.0}, "--seconds 0"),
        ({"seconds": math.nan}, "--seconds nan"),
        ({"device": "mps"}, "--device mps"),
        ({"precision": "int8"}, "--precision int8"),
    ],
)
def test_wrong_options_are_named(wrong: dict[str, object], message: str) -> None:
    given_options: dict[str, object] = {
        "n": None,
        "d": None,
        "k": 3,
        "r": 64,
        "device": "cpu",
        "precision": "auto",
        "seconds": None,
        "everything": False,
    }
    with pytest.raises(InputError, match=f"^{message}"):
        grid_options(**(given_options | wrong))  # type: ignore[arg-type]
