"""Restricted self-attention in blocks is self-attention with a window, at less cost."""

from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.testing import assert_close

from tests.drawing import seeds
from tests.nn.distances import packed_ranges, random_states
from transduce.analysis.complexity.counting import count_operations
from transduce.analysis.complexity.layers import LAYERS, LayerShape
from transduce.nn.initialise import initialise
from transduce.nn.mixers import local_attention
from transduce.nn.mixers.attention import MultiHeadAttention, attend_reference
from transduce.nn.mixers.local_attention import WindowAttention, attend_local
from transduce.nn.mixers.positions import DistancePenalty, RelativeKeys, ScoreTerm

windows = st.integers(1, 12)
min_blocks = st.sampled_from([1, 3, 32])


@st.composite
def heads(draw: st.DrawFn, *, max_length: int = 40) -> tuple[Tensor, Tensor, Tensor]:
    b, h, d_k, d_v = (draw(st.integers(1, 3)) for _ in range(4))
    t = draw(st.integers(1, max_length))
    q, k, v = (
        random_states(b, h, t, width, seed=draw(seeds)).requires_grad_()
        for width in (d_k, d_k, d_v)
    )
    return q, k, v


@given(heads(), windows, st.booleans(), min_blocks)
def test_it_equals_attention_with_a_window_forward_and_backward(
    qkv: tuple[Tensor, Tensor, Tensor], window: int, causal: bool, min_block: int
) -> None:
    with patch.object(local_attention, "MIN_BLOCK", min_block):
        local = attend_local(*qkv, window=window, causal=causal)
    masked, _ = attend_reference(*qkv, window=window, causal=causal)
    assert_close(local, masked)
    direction = torch.randn_like(masked)
    assert_close(
        torch.autograd.grad(local, qkv, direction), torch.autograd.grad(masked, qkv, direction)
    )


@pytest.mark.parametrize("by_query", [False, True])
@given(heads(), windows, st.booleans(), min_blocks, st.integers(0, 5))
def test_a_score_term_is_added(
    by_query: bool,
    qkv: tuple[Tensor, Tensor, Tensor],
    window: int,
    causal: bool,
    min_block: int,
    max_distance: int,
) -> None:
    q = qkv[0]
    if by_query:
        keys = RelativeKeys(q.size(3), max_distance).double()
        initialise(keys)
        term: ScoreTerm = keys(q)
    else:
        term = DistancePenalty(q.size(1), max_distance).double()(q)
    with patch.object(local_attention, "MIN_BLOCK", min_block):
        local = attend_local(*qkv, window=window, causal=causal, term=term)
    masked, _ = attend_reference(*qkv, window=window, causal=causal, term=term)
    assert_close(local, masked)


@given(heads(), windows, min_blocks, st.data())
def test_padding_is_not_seen(
    qkv: tuple[Tensor, Tensor, Tensor], window: int, min_block: int, data: st.DataObject
) -> None:
    b, _, t, _ = qkv[0].shape
    lengths = [data.draw(st.integers(1, t)) for _ in range(b)]
    real = torch.arange(t) < torch.tensor(lengths)[:, None]
    with patch.object(local_attention, "MIN_BLOCK", min_block):
        local = attend_local(*qkv, window=window, allowed=real[:, None, None])
    assert local.isfinite().all()
    for sentence, length in enumerate(lengths):
        alone = [x[sentence : sentence + 1, :, :length] for x in qkv]
        masked, _ = attend_reference(*alone, window=window)
        assert_close(local[sentence : sentence + 1, :, :length], masked)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), windows, st.booleans(), min_blocks)
def test_packed_sentences_do_not_see_each_other(
    lengths: list[int], window: int, causal: bool, min_block: int
) -> None:
    ranges = packed_ranges(lengths)
    q, k, v = (random_states(1, 2, sum(lengths), 4, seed=seed) for seed in range(3))
    with patch.object(local_attention, "MIN_BLOCK", min_block):
        local = attend_local(q, k, v, window=window, causal=causal, allowed=ranges)
    masked, _ = attend_reference(q, k, v, window=window, causal=causal, allowed=ranges)
    assert_close(local, masked)


def test_window_attention_is_multi_head_attention_with_a_window() -> None:
    attention = WindowAttention(8, 4, d_k=4, d_v=4, kv_heads=2, window=5)
    plain = MultiHeadAttention(8, 4, d_k=4, d_v=4, kv_heads=2, window=5).double()
    initialise(attention)
    plain.load_state_dict(attention.double().state_dict())
    for length in (9, 150):  # as a masked matrix, and in blocks
        x = random_states(2, length, 8, seed=0)
        for causal in (False, True):
            found, expected = attention(x, x, causal=causal), plain(x, x, causal=causal)
            assert_close(found, expected, rtol=0, atol=1e-12)


def test_window_attention_holds_no_full_matrix_of_a_long_sequence() -> None:
    attention, x = WindowAttention(8, 1, d_k=8, d_v=8, window=33), torch.zeros(1, 2048, 8)
    sizes: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        attention(x.requires_grad_(), x)
    assert max(sizes) <= 2048 * 3 * 32


def test_its_operations_are_linear_in_length_and_those_of_a_mask_are_not() -> None:
    by_name = {kind.name: kind for kind in LAYERS}
    shape = LayerShape(64, r=64)
    [local, full] = [
        [count_operations(by_name[name], n, shape) for n in (512, 1024)]
        for name in ("restricted self-attention", "self-attention")
    ]
    assert local[1] == 2 * local[0]
    assert full[1] == 4 * full[0]


def test_it_needs_a_window() -> None:
    x = random_states(1, 1, 3, 2, seed=0)
    with pytest.raises(AssertionError, match="window"):
        attend_local(x, x, x)
