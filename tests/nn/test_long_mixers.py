"""Longformer, Linformer and Performer against plain forms with the same weights."""

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import seeds
from tests.nn.distances import random_states
from transduce.nn.initialise import initialise
from transduce.nn.mixers.attention import AttentionRecorder, MultiHeadAttention
from transduce.nn.mixers.global_attention import GlobalAttention
from transduce.nn.mixers.low_rank import LowRankAttention
from transduce.nn.mixers.positions import RelativeKeys, RelativePositions, RelativeScores, Rotation
from transduce.nn.mixers.random_features import RandomFeatureAttention, orthogonal_directions
from transduce.nn.step_state import BeamHistory, StepContext

D = 8


def real_mask(lengths: list[int]) -> Tensor:
    real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return real[:, None, None]


def drawn(module: torch.nn.Module, seed: int) -> None:
    torch.manual_seed(seed)
    initialise(module)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    module.double()


def make_term(name: str) -> RelativePositions | None:
    return {"keys": lambda: RelativeKeys(4, 3), "scores": lambda: RelativeScores(4, 5)}.get(
        name, lambda: None
    )()


@pytest.mark.parametrize("term", ["none", "keys", "scores"])
@given(g=st.integers(1, 5), window=st.integers(1, 9), length=st.integers(1, 140), seed=seeds)
def test_longformer_is_a_masked_full_matrix(
    term: str, g: int, window: int, length: int, seed: int
) -> None:
    ours = GlobalAttention(
        D, 4, d_k=4, d_v=4, kv_heads=2, global_tokens=g, window=window, term=make_term(term)
    )
    drawn(ours, seed)
    plain = MultiHeadAttention(D, 4, d_k=4, d_v=4, kv_heads=2, term=make_term(term)).double()
    plain.load_state_dict(ours.state_dict())
    lengths = [length, 1 + length // 2]
    x, allowed = random_states(2, length, D, seed=seed), real_mask(lengths)
    at = range(length)
    sees = [[abs(i - j) < window or i < g or j < g for j in at] for i in at]
    expected = plain(x, x, allowed=torch.tensor(sees) & allowed)
    for found in (ours(x, x, allowed=allowed), ours(x, x, allowed=allowed, attend=reference)):
        for row, real in enumerate(lengths):
            assert_close(found[row, :real], expected[row, :real], rtol=0, atol=1e-12)


def reference(*args: Tensor, **options: object) -> Tensor:
    return AttentionRecorder()(*args, **options)  # type: ignore[arg-type]


@given(rank=st.integers(1, 9), length=st.integers(1, 12), seed=seeds, rotated=st.booleans())
def test_linformer_attends_to_explicit_sums(
    rank: int, length: int, seed: int, rotated: bool
) -> None:
    rotation = Rotation(4, 12) if rotated else None
    ours = LowRankAttention(
        D, 4, d_k=4, d_v=3, kv_heads=2, rank=rank, max_positions=12, rotation=rotation
    )
    drawn(ours, seed)
    x = random_states(1, length, D, seed=seed)
    q, k, v = ours.project(x)
    q, k = ours.rotated(q, k)
    contexts = []
    for head in range(4):
        keys = torch.einsum("rn,nd->rd", ours.sum_keys[:, :length], k[0, head // 2])
        values = torch.einsum("rn,nd->rd", ours.sum_values[:, :length], v[0, head // 2])
        contexts.append((q[0, head] @ keys.T / 2).softmax(dim=-1) @ values)
    expected = torch.cat(contexts, dim=-1) @ ours.w_o.weight.T
    assert_close(ours(x, x)[0], expected, rtol=0, atol=1e-12)
    padded = torch.cat([x, random_states(1, 12 - length, D, seed=seed + 1)], dim=1)
    allowed = (torch.arange(12) < length)[None, None, None]
    assert_close(ours(padded, padded, allowed=allowed)[0, :length], expected, rtol=0, atol=1e-12)


def test_linformer_projects_the_source_of_a_search_once() -> None:
    ours = LowRankAttention(D, 2, d_k=4, d_v=4, rank=3, max_positions=12)
    drawn(ours, 1)
    x, memory, allowed = (
        random_states(2, 5, D, seed=1),
        random_states(2, 12, D, seed=2),
        real_mask([12, 4]),
    )
    k, v = ours.source(memory, allowed)
    assert k.shape == (2, 2, 3, 4)
    stepped = ours.attend(ours.queries(x), k, v, allowed=allowed)
    assert_close(stepped, ours(x, memory, allowed=allowed), rtol=0, atol=1e-12)
    with pytest.raises(AssertionError, match="causal"):
        ours(x, x, causal=True)


def performer(seed: int, *, kv_heads: int = 2, features: int = 10) -> RandomFeatureAttention:
    ours = RandomFeatureAttention(
        D, 4, d_k=4, d_v=3, features=features, kv_heads=kv_heads, rotation=Rotation(4, 400)
    )
    drawn(ours, seed)
    return ours


def explicit(ours: RandomFeatureAttention, x: Tensor, *, causal: bool) -> Tensor:
    """Weight all pairs of positions, by logarithms of φ(q)·φ(k): φ(x)_i = exp(ω_i·x − |x|²/2)."""
    q, k, v = ours.project(x)
    q, k = ours.rotated(q, k)
    contexts = []
    for head in range(4):
        shared = head // (4 // ours.kv_heads)
        omega = ours.directions[shared].double()

        def log_phi(rows: Tensor, omega: Tensor = omega) -> Tensor:
            rows = rows / math.sqrt(math.sqrt(4))
            norms = (rows * rows).sum(dim=-1, keepdim=True)
            return rows @ omega.T - norms / 2

        pairs = log_phi(q[0, head])[:, None] + log_phi(k[0, shared])
        scores = pairs.logsumexp(dim=-1)
        is_later = torch.ones_like(scores, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(is_later, -math.inf) if causal else scores
        weights = scores.softmax(dim=-1)
        contexts.append(weights @ v[0, shared])
    return (torch.cat(contexts, dim=-1) @ ours.w_o.weight.T)[None]


@given(length=st.integers(1, 300), kv_heads=st.sampled_from([1, 2, 4]), seed=seeds)
def test_performer_is_its_explicit_features_forward_and_backward(
    length: int, kv_heads: int, seed: int
) -> None:
    ours = performer(seed, kv_heads=kv_heads)
    x = random_states(1, length, D, seed=seed).requires_grad_()
    for causal in (False, True):
        found, expected = ours(x, x, causal=causal), explicit(ours, x, causal=causal)
        assert_close(found, expected, rtol=0, atol=1e-11)
        upstream = random_states(*found.shape, seed=seed + 1)
        mine, its = (torch.autograd.grad(y, x, upstream)[0] for y in (found, expected))
        assert_close(mine, its, rtol=0, atol=1e-9)


@given(kv_heads=st.sampled_from([1, 4]), seed=seeds)
def test_steps_of_performer_are_its_causal_form(kv_heads: int, seed: int) -> None:
    ours, b, k, steps = performer(seed, kv_heads=kv_heads), 2, 3, 5
    x = random_states(b * k, steps, D, seed=seed)
    expected = ours(x, x, causal=True).view(b, k, steps, D)
    past = ours.empty_cache(x.view(b, -1), hypotheses=k, max_steps=steps)
    history = BeamHistory.empty(b, k, steps, torch.device("cpu"))
    for step in range(steps):
        at = StepContext(torch.tensor([step]), reach=steps, history=history)
        found = ours.step(x[:, step].view(b, k, D), past, at)
        assert_close(found, expected[:, :, step], rtol=0, atol=1e-12)


def test_performer_estimates_attention_better_with_more_features() -> None:
    errors = []
    for features in (16, 4096):
        ours = performer(3, kv_heads=4, features=features)
        plain = MultiHeadAttention(D, 4, d_k=4, d_v=3, rotation=Rotation(4, 400)).double()
        plain.load_state_dict(ours.state_dict())
        x = 0.5 * random_states(2, 40, D, seed=1)
        errors.append((ours(x, x) - plain(x, x)).abs().mean().item())
    assert errors[1] < 0.5 * errors[0]


def performer_with_large_scores() -> RandomFeatureAttention:
    """Return one in float64 for which features in float32 underflow."""
    exact = performer(1, features=16)
    with torch.no_grad():
        for weight in (exact.w_q.weight, exact.w_k.weight):
            weight.mul_(6)
    return exact


@pytest.mark.parametrize("causal", [False, True])
def test_performer_in_float32_bears_large_queries_and_keys(causal: bool) -> None:
    exact = performer_with_large_scores()
    ours = copy.deepcopy(exact).float()
    x = 2 * random_states(1, 300, D, seed=2)
    narrow = x.float()
    expected, found = explicit(exact, x, causal=causal), ours(narrow, narrow, causal=causal)
    assert_close(found.double(), expected, rtol=0, atol=1e-3)
    upstream = random_states(*found.shape, seed=3)
    mine = torch.autograd.grad(found, list(ours.parameters()), upstream.float())
    its = torch.autograd.grad(expected, list(exact.parameters()), upstream)
    for one, other in zip(mine, its, strict=True):
        assert_close(one.double(), other, rtol=0, atol=1e-3 * other.abs().max().item())


def test_steps_of_performer_in_float32_bear_large_queries_and_keys() -> None:
    exact, k, steps = performer_with_large_scores(), 2, 40
    ours = copy.deepcopy(exact).float()
    x = random_states(k, steps, D, seed=2)
    expected = torch.cat([explicit(exact, row[None], causal=True) for row in x])
    past = ours.empty_cache(x[:1].float(), hypotheses=k, max_steps=steps)
    history, order = BeamHistory.empty(1, k, steps, torch.device("cpu")), torch.arange(k)
    for step in range(steps):
        at = StepContext(torch.tensor([step]), reach=steps, history=history)
        found = ours.step(x[order, step][None].float(), past, at)[0]
        assert_close(found.double(), expected[order, step], rtol=0, atol=1e-3)
        past.select(torch.tensor([[1, 0]]))
        order = order.flip(0)
        moved = past.allocate_like(1, max_steps=steps)
        moved.copy_from(past, torch.tensor([0]), steps=step + 1)
        past = moved


@pytest.mark.parametrize("causal", [False, True])
def test_wide_heads_of_performer_are_finite_and_padding_changes_nothing(causal: bool) -> None:
    ours = RandomFeatureAttention(D, 1, d_k=256, d_v=3, features=16)
    drawn(ours, 1)
    ours.float()
    with torch.no_grad():
        ours.w_k.weight.mul_(3)
    x = 5 * random_states(2, 9, D, seed=1).float()
    short = x[:, :6]
    alone = ours(short, short, causal=causal)
    padded = ours(x, x, allowed=real_mask([9, 6]), causal=causal)
    assert padded.isfinite().all()
    assert (alone != 0).any(dim=-1).all()
    assert_close(padded[1, :6], alone[1], rtol=0, atol=1e-4)


@given(features=st.integers(1, 20), d_k=st.integers(1, 8), seed=seeds)
def test_directions_are_orthogonal_in_blocks_and_of_one_length(
    features: int, d_k: int, seed: int
) -> None:
    omega = orthogonal_directions(2, features, d_k, seed=seed)
    assert omega.shape == (2, features, d_k)
    products = omega[1][:d_k] @ omega[1][:d_k].T
    np.testing.assert_allclose(products, d_k * np.eye(len(products)), atol=1e-5)
    assert (omega == orthogonal_directions(2, features, d_k, seed=seed)).all()
