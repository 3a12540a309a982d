"""On a CUDA device, heads that share keys and values are the reference, in every kernel."""

import copy

import pytest
import torch
from torch.testing import assert_close

from tests.nn.distances import Kind, packed_ranges, random_states, with_random_weights
from tests.nn.shared_heads import written_out
from transduce.nn.mixers.attention import MultiHeadAttention, attend_fused, attend_reference
from transduce.nn.mixers.key_ranges import KeyRanges
from transduce.nn.mixers.positions import Rotation
from transduce.nn.step_state import BeamHistory, StepContext

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
    pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores"),
]
LENGTHS, PADDING = [3, 64, 1, 17, 130, 40], 21
KINDS = [Kind(), Kind("scores", max_distance=4), Kind("keys", window=20), Kind(is_rotated=True)]


def twins(
    kind: Kind, kv_heads: int, *, d_v: int = 16
) -> tuple[MultiHeadAttention, MultiHeadAttention]:
    """Build an attention on the device in float32, and on the CPU in float64 with all heads."""
    attention = MultiHeadAttention(
        32,
        4,
        d_k=16,
        d_v=d_v,
        kv_heads=kv_heads,
        term=kind.make_term(4, 16),
        window=kind.window,
        rotation=Rotation(16, 1200) if kind.is_rotated else None,
    )
    attention = with_random_weights(attention, seed=1)
    return copy.deepcopy(attention).cuda().eval(), written_out(attention.double())


@pytest.mark.parametrize("kv_heads", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d_v", [16, 8])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_packed_row_is_repeated_heads_in_value_and_gradient(
    kv_heads: int, kind: Kind, d_v: int, is_compiled: bool
) -> None:
    ours, exact = twins(kind, kv_heads, d_v=d_v)
    ranges = packed_ranges(LENGTHS, padding=PADDING)
    x = random_states(1, ranges.first.size(0), 32, seed=2)
    is_real = (ranges.first < ranges.end)[:, None]
    upstream = random_states(*x.shape, seed=3) * is_real
    leaf = x.clone().requires_grad_()
    expected = exact(leaf, leaf, allowed=ranges, causal=True)
    torch.autograd.backward(expected, upstream)
    if is_compiled:
        torch.compiler.reset()
        ours.compile(fullgraph=True, dynamic=False)
    row = x.float().cuda().requires_grad_()
    first, end = ranges.first.cuda(), ranges.end.cuda()
    found = ours(row, row, allowed=KeyRanges(first, end, first, end), causal=True)
    torch.autograd.backward(found, upstream.float().cuda())
    scale = expected.abs().max().item()
    assert_close((found.double().cpu() * is_real), expected * is_real, rtol=0, atol=2e-5 * scale)
    assert row.grad is not None
    assert leaf.grad is not None
    scale = leaf.grad.abs().max().item()
    assert_close(row.grad.double().cpu(), leaf.grad, rtol=0, atol=3e-5 * scale)


@pytest.mark.parametrize("kv_heads", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_steps", [24, 1100])
@torch.inference_mode()
def test_cached_steps_are_the_causal_forward(kv_heads: int, kind: Kind, max_steps: int) -> None:
    ours, exact = twins(kind, kv_heads)
    b, k = 2, 16
    cache = ours.empty_cache(torch.zeros(b, 1).cuda(), hypotheses=k, max_steps=max_steps)
    history = BeamHistory.empty(b, k, max_steps, cache.keys.device)
    read = torch.zeros(b, k, 0, 32, dtype=torch.float64)
    for step in range(24):
        x = random_states(b, k, 32, seed=step)
        read = torch.cat([read, x[:, :, None]], dim=2)
        position = torch.tensor([step]).cuda()
        history.extend(position)
        at = StepContext(position, reach=max_steps, history=history)
        found = ours.step(x.float().cuda(), cache, at)
        whole = read.flatten(0, 1)
        expected = exact(whole, whole, causal=True)[:, -1].view(b, k, 32)
        scale = expected.abs().max().item()
        assert_close(found.double().cpu(), expected, rtol=0, atol=2e-5 * scale)


@pytest.mark.parametrize("kv_heads", [1, 2])
@torch.inference_mode()
def test_few_queries_to_a_source_are_the_reference(kv_heads: int) -> None:
    q = random_states(3, 4, 5, 16, seed=1)
    k, v = (random_states(3, kv_heads, 40, 16, seed=seed) for seed in (2, 3))
    allowed = (torch.arange(40) < torch.tensor([40, 7, 23])[:, None])[:, None, None]
    expected, _ = attend_reference(q, k, v, allowed=allowed)
    found = attend_fused(*(x.float().cuda() for x in (q, k, v)), allowed=allowed.cuda())
    assert_close(found.double().cpu(), expected, rtol=0, atol=1e-5)
