"""On a CUDA device, attention that depends on distances is the reference, in every kernel."""

import copy

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.nn.distances import Kind, packed_ranges, random_states, with_random_weights
from transduce.nn.mixers.attention import MultiHeadAttention, attend_fused, attend_reference
from transduce.nn.mixers.key_ranges import KeyRanges
from transduce.nn.mixers.positions import ScoreTerm
from transduce.nn.step_state import BeamHistory, StepContext

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
    pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores"),
]

LENGTHS, PADDING = [3, 64, 1, 17, 130, 40], 21
MAX_DISTANCE = 9
# Relative rounding of a product in each type, with a margin for the order of sums.
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 3e-2}
RULES = [("shared", None), ("by query", None), ("none", 5), ("shared", 40), ("by query", 2)]
"""Whose the table of the term is, and the window."""
KINDS = [
    Kind("penalty", max_distance=100),
    Kind("scores", max_distance=4),
    Kind("keys", window=20),
    Kind(is_rotated=True),
    Kind("keys", max_distance=7, window=9, is_rotated=True),
]


def normal(*shape: int, dtype: torch.dtype, seed: int) -> Tensor:
    return random_states(*shape, seed=seed).to("cuda", dtype)


def on_device(ranges: KeyRanges) -> KeyRanges:
    first, end = ranges.first.cuda(), ranges.end.cuda()
    return KeyRanges(first, end, first, end)


def assert_near(found: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    """Compare with float64, by the tolerance of a type and the size of the largest number."""
    tolerance = TOLERANCE[dtype] * expected.abs().max().item()
    assert_close(found.double().cpu(), expected.double().cpu(), rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("table", "window"), RULES)
@pytest.mark.parametrize("causal", [False, True])
def test_packed_attention_is_the_reference_in_value_and_gradient(
    dtype: torch.dtype, table: str, window: int | None, causal: bool
) -> None:
    from transduce.nn.kernels.packed_attention import attend_packed

    ranges = on_device(packed_ranges(LENGTHS, padding=PADDING))
    t, h, d = ranges.first.size(0), 2, 24
    leaves = [normal(t, 3, h, d, dtype=dtype, seed=1).requires_grad_()]
    if table != "none":  # in float32 beside bfloat16, and not in the order of heads and queries
        rows = t if table == "by query" else 1
        size = (rows, h, 2 * MAX_DISTANCE + 1)
        leaves.append(normal(*size, dtype=torch.float32, seed=2).requires_grad_())
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]

    def term_of(leaves: list[Tensor]) -> ScoreTerm | None:
        return ScoreTerm(leaves[1].transpose(0, 1)[None]) if len(leaves) > 1 else None

    found = attend_packed(
        leaves[:1], ranges, causal=causal, term=term_of(leaves), window=window
    )  # [T, h, d_v]
    q, k, v = (x.transpose(0, 1)[None] for x in exact[0].unbind(1))
    written, _ = attend_reference(
        q, k, v, allowed=ranges, causal=causal, term=term_of(exact), window=window
    )
    has_keys = (ranges.first < ranges.end)[:, None]
    expected = (written * has_keys)[0].transpose(0, 1)
    upstream = normal(*found.shape, dtype=dtype, seed=3)
    gradients = torch.autograd.grad(found, leaves, upstream)
    expected_gradients = torch.autograd.grad(expected, exact, upstream.double())
    for ours, theirs in zip((found, *gradients), (expected, *expected_gradients), strict=True):
        assert_near(ours, theirs, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("table", "window"), RULES)
@pytest.mark.parametrize("step", [0, 3, 40])
@torch.inference_mode()
def test_attention_to_a_cache_is_the_reference(
    dtype: torch.dtype, table: str, window: int | None, step: int
) -> None:
    from transduce.nn.kernels.search import attend_cached, surviving_slots

    b, h, k, steps, d = 3, 2, 5, 50, 20
    q = normal(b, h, k, d, dtype=dtype, seed=1)
    keys, values = (normal(b, h, steps * k, d, dtype=dtype, seed=seed) for seed in (2, 3))
    size = (b, h, k) if table == "by query" else (1, h, 1)
    numbers = normal(*size, 2 * MAX_DISTANCE + 1, dtype=dtype, seed=4)
    term = None if table == "none" else ScoreTerm(numbers)
    past = (torch.arange(b * k * steps).view(b, k, steps) * 7919 % 31 % k).int().cuda()
    position = torch.tensor([step]).cuda()
    found = attend_cached(
        q, keys, values, past, *surviving_slots(past, position), position=position, term=term,
        window=window,
    )  # fmt: skip
    distances = torch.arange(steps * k).cuda() // k - step  # of all slots
    is_own = (past[..., None] == torch.arange(k).cuda()).flatten(2) & (distances <= 0)
    if window is not None:
        is_own = is_own & (distances > -window)
    added = torch.zeros(b, h, k, steps * k, dtype=torch.float64).cuda()
    if term is not None:
        added = (
            added
            + numbers.double()[..., distances.clamp(-MAX_DISTANCE, MAX_DISTANCE) + MAX_DISTANCE]
        )
    mask = added.masked_fill(~is_own[:, None], -torch.inf)
    expected, _ = attend_reference(q.double(), keys.double(), values.double(), allowed=mask)
    assert_near(found, expected, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("table", "window"), RULES)
@pytest.mark.parametrize("is_padded", [False, True])
@torch.inference_mode()
def test_attention_of_few_queries_is_the_reference(
    dtype: torch.dtype, table: str, window: int | None, is_padded: bool
) -> None:
    b, h, t, d = 3, 2, 13, 20
    q, k, v = (normal(b, h, t, d, dtype=dtype, seed=seed) for seed in (1, 2, 3))
    size = (b, h, t) if table == "by query" else (1, h, 1)
    numbers = normal(*size, 2 * MAX_DISTANCE + 1, dtype=dtype, seed=4)
    lengths = torch.tensor([13, 4, 9]).cuda()
    real = (torch.arange(t).cuda() < lengths[:, None])[:, None, None]
    allowed = real if is_padded else None
    found = attend_fused(
        q, k, v, allowed=allowed, term=None if table == "none" else ScoreTerm(numbers),
        window=window,
    )  # fmt: skip
    expected, _ = attend_reference(
        q.double(), k.double(), v.double(), allowed=allowed,
        term=None if table == "none" else ScoreTerm(numbers.double()), window=window,
    )  # fmt: skip
    assert_near(found, expected, dtype)


def twins(kind: Kind) -> tuple[MultiHeadAttention, MultiHeadAttention]:
    """Build an attention on the device, in float32, and the same on the CPU, in float64."""
    attention = with_random_weights(kind.make_attention(32, 4, d_k=16, d_v=16), seed=1)
    return copy.deepcopy(attention).to("cuda").eval(), attention.double().eval()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_packed_row_gets_the_same_on_both_devices_in_value_and_gradient(
    kind: Kind, is_compiled: bool
) -> None:
    ours, exact = twins(kind)
    ranges = packed_ranges(LENGTHS, padding=PADDING)
    x = random_states(1, ranges.first.size(0), 32, seed=2)
    is_real = (ranges.first < ranges.end)[:, None]  # padding may give anything finite
    upstream = random_states(*x.shape, seed=3) * is_real
    expected = exact(x, x, allowed=ranges, causal=True)
    torch.autograd.backward(expected, upstream)
    if is_compiled:
        torch.compiler.reset()
        ours.compile(fullgraph=True, dynamic=False)
    row = x.float().cuda()
    found = ours(row, row, allowed=on_device(ranges), causal=True)
    torch.autograd.backward(found, upstream.float().cuda())
    assert found.isfinite().all()
    assert_near(found.cpu() * is_real, expected * is_real, torch.float32)
    for mine, its in zip(ours.parameters(), exact.parameters(), strict=True):
        assert mine.grad is not None
        assert its.grad is not None
        assert_near(mine.grad, its.grad, torch.float32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_steps", [24, 1100])  # the second has more slots than our kernel takes
@torch.inference_mode()
def test_cached_steps_are_the_causal_forward(kind: Kind, max_steps: int) -> None:
    ours, exact = twins(kind)
    b, k = 2, 16
    cache = ours.empty_cache(torch.zeros(b, 1).cuda(), hypotheses=k, max_steps=max_steps)
    history = BeamHistory.empty(b, k, max_steps, cache.keys.device)
    read = torch.zeros(b, k, 0, 32, dtype=torch.float64)  # what each hypothesis has read
    for step in range(24):
        x = random_states(b, k, 32, seed=step)
        read = torch.cat([read, x[:, :, None]], dim=2)
        position = torch.tensor([step]).cuda()
        history.extend(position)
        at = StepContext(position, reach=max_steps, history=history)
        found = ours.step(x.float().cuda(), cache, at)
        whole = read.flatten(0, 1)
        expected = exact(whole, whole, causal=True)[:, -1].view(b, k, 32)
        assert_near(found, expected, torch.float32)
        beams = torch.arange(b * k).view(b, k) * 5 // 3 % k  # some repeat, some drop
        history.select(beams.cuda())
        read = read.gather(1, beams[:, :, None, None].expand_as(read))
