import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import seeds
from transduce.nn.mixers.attention import (
    Attend,
    AttentionRecorder,
    MultiHeadAttention,
    attend_fused,
    attend_reference,
)

sizes = st.integers(1, 7)


@st.composite
def attention_inputs(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Draw q, k, v of any sizes in float64, and a mask that allows every query some key."""
    generator = torch.Generator().manual_seed(draw(seeds))
    b, h, t, s, d_k, d_v = (draw(sizes) for _ in range(6))

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)

    allowed = torch.rand(b, 1, t, s, generator=generator) < draw(st.sampled_from([0.2, 0.7, 1.0]))
    allowed[..., 0] |= ~allowed.any(dim=-1)
    return normal(b, h, t, d_k), normal(b, h, s, d_k), normal(b, h, s, d_v), allowed


@given(inputs=attention_inputs(), masked=st.booleans())
def test_fused_attention_is_eq_1(inputs: tuple[Tensor, ...], masked: bool) -> None:
    q, k, v, allowed = inputs
    mask = allowed if masked else None
    fused = attend_fused(q, k, v, allowed=mask)
    reference, _ = attend_reference(q, k, v, allowed=mask)
    assert_close(fused, reference, rtol=0, atol=1e-12)
    upstream = torch.randn_like(fused)
    for ours, theirs in zip(
        torch.autograd.grad(reference, (q, k, v), upstream),
        torch.autograd.grad(fused, (q, k, v), upstream),
        strict=True,
    ):
        assert_close(ours, theirs, rtol=0, atol=1e-11)


@given(inputs=attention_inputs())
def test_causal_fused_attention_is_causal_eq_1(inputs: tuple[Tensor, ...]) -> None:
    q, k, v, _ = inputs
    t = min(q.size(2), k.size(2))
    q, k, v = q[:, :, :t], k[:, :, :t], v[:, :, :t]
    reference, weights = attend_reference(q, k, v, causal=True)
    assert_close(attend_fused(q, k, v, causal=True), reference, rtol=0, atol=1e-12)
    assert (weights.triu(diagonal=1) == 0).all()


@given(inputs=attention_inputs())
def test_weights_are_a_distribution_over_the_allowed_keys(inputs: tuple[Tensor, ...]) -> None:
    q, k, v, allowed = inputs
    _, weights = attend_reference(q, k, v, allowed=allowed)
    assert (weights[~allowed.expand_as(weights)] == 0).all()
    assert_close(weights.sum(dim=-1), torch.ones_like(weights[..., 0]), rtol=0, atol=1e-12)


@given(inputs=attention_inputs())
def test_the_recorder_is_the_reference_and_keeps_its_weights(inputs: tuple[Tensor, ...]) -> None:
    q, k, v, allowed = inputs
    recorder = AttentionRecorder()
    contexts = [recorder(q, k, v, allowed=allowed), recorder(q, k, v)]
    for mask, context, weights in zip((allowed, None), contexts, recorder.weights, strict=True):
        expected_context, expected_weights = attend_reference(q, k, v, allowed=mask)
        assert torch.equal(context, expected_context)
        assert torch.equal(weights, expected_weights)


@given(
    seed=seeds, b=sizes, t=sizes, s=sizes, h=st.integers(1, 4), d_k=sizes, d_v=sizes, d_model=sizes
)
def test_heads_are_separate_attentions_side_by_side(
    seed: int, b: int, t: int, s: int, h: int, d_k: int, d_v: int, d_model: int
) -> None:
    torch.manual_seed(seed)
    attention = MultiHeadAttention(d_model, h, d_k=d_k, d_v=d_v, bias=True).double()
    x, memory = torch.randn(b, t, d_model).double(), torch.randn(b, s, d_model).double()
    heads = []
    for i in range(h):
        keys, values = slice(i * d_k, (i + 1) * d_k), slice(i * d_v, (i + 1) * d_v)
        context, _ = attend_reference(
            attention.w_q(x)[..., keys],
            attention.w_k(memory)[..., keys],
            attention.w_v(memory)[..., values],
        )
        heads.append(context)
    expected = attention.w_o(torch.cat(heads, dim=-1))
    assert_close(attention(x, memory), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("attend", [attend_fused, AttentionRecorder()])
def test_weights_are_dropped_only_in_training(attend: Attend) -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 2, d_k=4, d_v=4, p_drop=0.5)
    x = torch.randn(2, 6, 8)
    first, second = (attention.train()(x, x, attend=attend) for _ in range(2))
    assert not torch.equal(first, second)
    first, second = (attention.eval()(x, x, attend=attend) for _ in range(2))
    assert torch.equal(first, second)


@given(inputs=attention_inputs())
def test_dropout_applies_to_the_weights(inputs: tuple[Tensor, ...]) -> None:
    q, k, v, allowed = inputs
    torch.manual_seed(0)
    dropped, weights = attend_reference(q, k, v, allowed=allowed, p_drop=0.5)
    torch.manual_seed(0)
    assert torch.equal(dropped, torch.nn.functional.dropout(weights, 0.5) @ v)
