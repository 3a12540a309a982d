"""Attentions whose heads share keys and values, and the same with these written out."""

import copy

import torch
from hypothesis import strategies as st

from tests.drawing import seeds
from tests.nn.distances import MAX_POSITIONS, kinds, with_random_weights
from transduce.export.shared_heads import with_repeated_heads
from transduce.nn.mixers.attention import MultiHeadAttention
from transduce.nn.mixers.positions import Rotation


@st.composite
def grouped_attentions(draw: st.DrawFn) -> MultiHeadAttention:
    """Draw an attention of any kind with fewer heads of keys and values, in float64."""
    kv_heads, group, half, d_v = (draw(st.integers(1, 3)) for _ in range(4))
    kind, h = draw(kinds()), kv_heads * group
    attention = MultiHeadAttention(
        6,
        h,
        d_k=2 * half,
        d_v=d_v,
        kv_heads=kv_heads,
        bias=draw(st.booleans()),
        score=draw(st.sampled_from(["scaled", "unscaled", "additive"])),
        term=kind.make_term(h, 2 * half),
        window=kind.window,
        rotation=Rotation(2 * half, MAX_POSITIONS) if kind.is_rotated else None,
        qk_norm=draw(st.booleans()),
    )
    return with_random_weights(attention, seed=draw(seeds)).double().eval()


def written_out(attention: MultiHeadAttention) -> MultiHeadAttention:
    """Copy an attention, with heads of keys and values repeated for every head of queries."""
    plain = MultiHeadAttention(
        attention.w_q.in_features,
        attention.h,
        d_k=attention.d_k,
        d_v=attention.d_v,
        bias=attention.w_q.bias is not None,
        score=attention.score,
        term=copy.deepcopy(attention.term),
        window=attention.window,
        rotation=attention.rotation,
        qk_norm=attention.norm_q is not None,
    )
    weights = {f"attention.{name}": tensor for name, tensor in attention.state_dict().items()}
    repeated = with_repeated_heads(weights, kv_heads=attention.kv_heads, h=attention.h)
    dtype = attention.w_q.weight.dtype
    plain.to(dtype).load_state_dict(
        {name.removeprefix("attention."): tensor for name, tensor in repeated.items()}
    )
    return plain.eval()


def folded(gradient: torch.Tensor, *, kv_heads: int, h: int) -> torch.Tensor:
    """Add up the gradients of repeated rows, [h·d, …]."""
    by_head = gradient.view(kv_heads, h // kv_heads, -1, *gradient.shape[1:])
    return by_head.sum(dim=1).flatten(0, 1)
