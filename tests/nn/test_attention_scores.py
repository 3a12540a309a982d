"""Other ways to compare queries and keys (§3.2.1), against their formulas."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import random_ids, seeds, transformer
from tests.models.test_transformer import layout_of
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn.initialise import initialise
from transduce.nn.mixers.attention import (
    AttentionRecorder,
    MultiHeadAttention,
    attend_fused,
)
from transduce.nn.mixers.heads import AttentionScore

SCORES: list[AttentionScore] = ["scaled", "unscaled", "additive"]


def plain_attention(of: MultiHeadAttention, x: Tensor, memory: Tensor, allowed: Tensor) -> Tensor:
    """Loop over heads, queries and keys."""
    contexts = []
    for head in range(of.h):
        keys = slice(head * of.d_k, (head + 1) * of.d_k)
        values = slice(head * of.d_v, (head + 1) * of.d_v)
        q, k = x @ of.w_q.weight[keys].T, memory @ of.w_k.weight[keys].T
        v = memory @ of.w_v.weight[values].T
        rows = []
        for i in range(x.size(0)):
            scores = torch.stack([compared(of, head, q[i], key) for key in k])
            weights = scores.masked_fill(~allowed[i], -math.inf).softmax(dim=0)
            rows.append(weights @ v)
        contexts.append(torch.stack(rows))
    return torch.cat(contexts, dim=1) @ of.w_o.weight.T


def compared(of: MultiHeadAttention, head: int, q: Tensor, k: Tensor) -> Tensor:
    if of.score == "additive":
        assert of.v_score is not None
        return (of.v_score[head] * torch.tanh(q + k)).sum()
    return (q * k).sum() / (math.sqrt(of.d_k) if of.score == "scaled" else 1.0)


@pytest.mark.parametrize("score", SCORES)
@given(data=st.data())
def test_attention_is_a_loop_over_queries_and_keys(
    score: AttentionScore, data: st.DataObject
) -> None:
    of = MultiHeadAttention(6, 2, d_k=data.draw(st.integers(1, 5)), d_v=3, score=score).double()
    torch.manual_seed(data.draw(seeds))
    initialise(of)
    x = torch.randn(data.draw(st.integers(1, 5)), 6, dtype=torch.float64)
    memory = torch.randn(data.draw(st.integers(1, 5)), 6, dtype=torch.float64)
    allowed = torch.rand(x.size(0), memory.size(0)) < 0.6
    allowed[:, 0] = True
    expected = plain_attention(of, x, memory, allowed)
    for attend in (attend_fused, AttentionRecorder()):
        found = of(x[None], memory[None], allowed=allowed, attend=attend)[0]
        assert_close(found, expected, rtol=0, atol=1e-12)
    causal = plain_attention(of, x, x, torch.ones(len(x), len(x), dtype=torch.bool).tril())
    assert_close(of(x[None], x[None], causal=True)[0], causal, rtol=0, atol=1e-12)


def test_additive_scores_have_the_gradients_of_the_formula() -> None:
    of = MultiHeadAttention(6, 2, d_k=3, d_v=3, score="additive").double()
    torch.manual_seed(0)
    initialise(of)
    x = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    everything = torch.ones(4, 4, dtype=torch.bool)
    inputs = [x, *of.parameters()]
    found, expected = (
        torch.autograd.grad(y.square().sum(), inputs)
        for y in (of(x[None], x[None]), plain_attention(of, x, x, everything))
    )
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("score", SCORES)
def test_packed_rows_attend_as_single_sentences(score: AttentionScore) -> None:
    settings = {"vocab_size": 23, "n_layers": 2, "d_model": 8, "d_ff": 8, "h": 2}
    model = transformer(TransformerConfig.model_validate({**settings, "attention_score": score}))
    model = model.double().eval()
    layout = layout_of([4, 3], [2, 5], rest=0)
    src, tgt = random_ids([7], seed=1), random_ids([7], seed=2)
    packed = model.decode_states(model.encode(src, layout), tgt, layout)
    for sources, targets in ((slice(0, 4), slice(0, 2)), (slice(4, 7), slice(2, 7))):
        alone = model.decode_states(model.encode(src[:, sources]), tgt[:, targets])
        assert_close(packed[:, targets], alone, rtol=0, atol=1e-12)
