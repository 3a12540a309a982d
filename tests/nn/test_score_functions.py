"""Attention of recurrent decoders equals its formula, whether its inside is kept or not."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import seeds
from transduce.nn.initialise import initialise
from transduce.nn.mixers import score_functions
from transduce.nn.mixers.score_functions import ScoreName, SourceAttention, additive_scores


def plain_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (torch.tanh(q[:, :, None] + k[:, None]) * v[:, 0]).sum(dim=-1)


@given(
    t=st.integers(1, 7),
    s=st.integers(1, 5),
    chunk=st.sampled_from([1, 40, 10**6]),
    kept=st.booleans(),
    seed=seeds,
)
def test_additive_scores_and_their_gradients(
    t: int, s: int, chunk: int, kept: bool, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((2, t, 3), (2, s, 3), (3, 1), (2, t, s))
    q, k, v, weights = (
        torch.randn(shape, dtype=torch.float64, generator=generator) for shape in shapes
    )
    given = [x.requires_grad_() for x in (q, k, v)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(score_functions, "CHUNK_ELEMENTS", {"cpu": chunk, "cuda": chunk})
        patch.setattr(score_functions, "KEPT_ELEMENTS", 10**9 if kept else 0)
        found = additive_scores(q, k, v)
        gradients = torch.autograd.grad((found * weights).sum(), given)
        with torch.no_grad():
            assert_close(additive_scores(q, k, v), found, rtol=0, atol=1e-12)
    expected = plain_scores(q, k, v)
    assert_close(found, expected, rtol=0, atol=1e-12)
    for mine, plain in zip(
        gradients, torch.autograd.grad((expected * weights).sum(), given), strict=True
    ):
        assert_close(mine, plain, rtol=0, atol=1e-12)


def test_what_is_not_kept_is_not_held() -> None:
    """Beyond the bound, only the inputs are saved for the backward pass."""

    def saved_elements(bound: int) -> int:
        sizes: list[int] = []

        def keep(tensor: Tensor) -> Tensor:
            sizes.append(tensor.numel())
            return tensor

        q, k, v = torch.randn(2, 5, 3), torch.randn(2, 4, 3), torch.randn(3, 1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(score_functions, "KEPT_ELEMENTS", bound)
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                additive_scores(q.requires_grad_(), k, v)
        return sum(sizes)

    assert saved_elements(0) == 30 + 24 + 3
    assert saved_elements(120) == 30 + 24 + 3 + 120


@pytest.mark.parametrize("score", ["additive", "general", "dot", "scaled_dot"])
def test_the_context_is_that_of_the_formula(score: ScoreName) -> None:
    torch.manual_seed(1)
    attention = SourceAttention(4, 4, score=score)
    initialise(attention)
    queries, memory = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    mask = torch.tensor([[[0.0] * 5], [[0.0] * 2 + [-torch.inf] * 3]])
    context, weights = attention(queries, attention.keys(memory), memory, mask)
    for b, n in ((0, 5), (1, 2)):
        for t in range(3):
            h, s = memory[b, :n], queries[b, t]
            if score == "additive":
                scores = torch.tanh(attention.w_1(h) + attention.w_2(s)) @ attention.v
            elif score == "general":
                scores = h @ (attention.w_1.weight.T @ s)
            else:
                scores = h @ s / (2 if score == "scaled_dot" else 1)
            expected = scores.softmax(dim=0)
            assert_close(weights[b, t, :n], expected)
            assert not weights[b, t, n:].any()
            assert_close(context[b, t], expected @ h)
