"""The mixture of experts against a plain loop over tokens and experts, in float64."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import seeds
from transduce.nn.initialise import initialise
from transduce.nn.mixture import NOISE_FLOOR, MixtureOfExperts, Routing

D_MODEL = 6


@st.composite
def mixtures(draw: st.DrawFn, *, capacity: float | None = None) -> MixtureOfExperts:
    """Draw a mixture in float64 whose gate scores differ widely and whose biases are not 0."""
    experts = draw(st.integers(1, 6))
    mixture = MixtureOfExperts(
        D_MODEL,
        draw(st.integers(1, 9)),
        experts=experts,
        per_token=draw(st.integers(1, experts)),
        capacity=capacity or draw(st.sampled_from([0.1, 0.5, 1.0, 1.5])),
    ).double()
    torch.manual_seed(draw(seeds))
    initialise(mixture)
    for weights in (mixture.w_gate, mixture.w_noise, mixture.b_1, mixture.b_2):
        torch.nn.init.normal_(weights)
    return mixture


def expert(mixture: MixtureOfExperts, e: int, x: Tensor) -> Tensor:
    """Eq. 2 with the weights of one expert."""
    return (x @ mixture.w_1[e] + mixture.b_1[e]).relu() @ mixture.w_2[e] + mixture.b_2[e]


def choices_of(scores: Tensor, k: int) -> list[tuple[int, Tensor]]:
    """Return the k best experts of a token, best first, each with its gate."""
    best = sorted(range(len(scores)), key=lambda e: -scores[e].item())[:k]
    gates = scores[best].exp() / scores[best].exp().sum()
    return list(zip(best, gates, strict=True))


def plain_mixture(
    mixture: MixtureOfExperts, x: Tensor, scores: Tensor, *, real: Tensor, slots: int | None
) -> Tensor:
    """Loop over choices, then tokens: a choice counts if its expert has a slot left."""
    tokens, k = x.flatten(0, 1), mixture.per_token
    taken = [0] * mixture.experts
    rows = [0 * token for token in tokens]
    for rank in range(k):
        for n, token in enumerate(tokens):
            e, gate = choices_of(scores[n], k)[rank]
            if slots is not None and (not real.flatten()[n] or taken[e] == slots):
                continue
            taken[e] += 1
            rows[n] = rows[n] + gate * expert(mixture, e, token)
    return torch.stack(rows).view(x.shape)


def drawn(data: st.DataObject) -> tuple[Tensor, Tensor]:
    sentences, length = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 12))
    x = torch.randn(sentences, length, D_MODEL, dtype=torch.float64, requires_grad=True)
    return x, torch.rand(sentences, length) < 0.7


def noisy_scores(mixture: MixtureOfExperts, x: Tensor) -> Tensor:
    """Repeat the draw of the training pass, which must follow `torch.manual_seed(1)`."""
    tokens = x.flatten(0, 1)
    torch.manual_seed(1)
    clean = tokens @ mixture.w_gate.T
    std = torch.nn.functional.softplus(tokens @ mixture.w_noise.T) + NOISE_FLOOR
    return clean + torch.randn_like(clean) * std


@given(data=st.data())
def test_without_capacity_it_is_a_loop_over_experts(data: st.DataObject) -> None:
    mixture = data.draw(mixtures()).eval()
    x, real = drawn(data)
    scores = x.flatten(0, 1) @ mixture.w_gate.T
    expected = plain_mixture(mixture, x, scores, real=real, slots=None)
    assert_close(mixture(x, Routing(real)), expected, rtol=0, atol=1e-12)
    with torch.no_grad():
        assert_close(mixture(x), expected, rtol=0, atol=1e-12)
    with torch.inference_mode():
        alone = mixture(x[:, :1])
    assert_close(alone, expected[:, :1], rtol=0, atol=1e-12)


@given(data=st.data())
def test_with_capacity_tokens_without_a_slot_are_left_out(data: st.DataObject) -> None:
    """Output and all gradients; first choices come first, padding takes no slot."""
    mixture = data.draw(mixtures())
    x, real = drawn(data)
    slots = mixture._slots(real.numel())
    fair = real.numel() * mixture.per_token / mixture.experts
    assert min(real.numel(), mixture.capacity * fair) <= slots < mixture.capacity * fair + 8
    expected = plain_mixture(mixture, x, noisy_scores(mixture, x), real=real, slots=slots)
    torch.manual_seed(1)
    found = mixture(x, Routing(real))
    assert_close(found, expected, rtol=0, atol=1e-12)
    weights = torch.randn_like(found)
    inputs = [x, mixture.w_gate, mixture.w_noise, mixture.w_1, mixture.b_1, mixture.w_2]
    gradients = [
        torch.autograd.grad((y * weights).sum(), inputs, allow_unused=True)
        for y in (found, expected)
    ]
    for ours, plain in zip(*gradients, strict=True):
        assert_close(ours, torch.zeros_like(ours) if plain is None else plain, rtol=0, atol=1e-10)


@given(data=st.data())
def test_the_balance_is_the_papers(data: st.DataObject) -> None:
    mixture = data.draw(mixtures())
    x, real = drawn(data)
    scores, k = noisy_scores(mixture, x), mixture.per_token
    clean = x.flatten(0, 1) @ mixture.w_gate.T
    std = torch.nn.functional.softplus(x.flatten(0, 1) @ mixture.w_noise.T) + NOISE_FLOOR
    importance, load = torch.zeros(2, mixture.experts, dtype=torch.float64)
    for n in real.flatten().nonzero().flatten().tolist():
        for e, gate in choices_of(scores[n], k):
            importance[e] += gate.item()
        for e in range(mixture.experts):
            others = sorted(scores[n, i].item() for i in range(mixture.experts) if i != e)
            bound = others[-k] if k <= len(others) else -math.inf
            z = (clean[n, e].item() - bound) / std[n, e].item()
            load[e] += (1 + math.erf(z / math.sqrt(2))) / 2
    expected = sum(
        (used.var(correction=0) / (used.mean() ** 2 + 1e-10)).item() for used in (importance, load)
    )
    routing = Routing(real)
    torch.manual_seed(1)
    mixture(x, routing)
    assert routing.balance is not None
    assert routing.balance.item() == pytest.approx(expected, abs=1e-10)


def test_balancing_spreads_tokens_over_the_experts() -> None:
    torch.manual_seed(0)
    mixture = MixtureOfExperts(D_MODEL, 4, experts=8, per_token=2, capacity=1.0)
    initialise(mixture)
    x = torch.randn(1, 400, D_MODEL) + 1.0
    torch.nn.init.normal_(mixture.w_gate)
    optimiser = torch.optim.Adam([mixture.w_gate, mixture.w_noise], lr=0.02)
    found = []
    for _ in range(100):
        routing = Routing(torch.ones(1, 400, dtype=torch.bool))
        mixture(x, routing)
        assert routing.balance is not None
        optimiser.zero_grad()
        torch.autograd.backward(routing.balance)
        optimiser.step()
        found.append(routing.balance.item())
    assert found[0] > 1
    assert found[-1] < 0.1 * found[0]


def test_the_gradient_has_the_same_bits_each_time() -> None:
    torch.manual_seed(0)
    mixture = MixtureOfExperts(16, 32, experts=4, per_token=2, capacity=1.0)
    initialise(mixture)
    x = torch.randn(2, 50, 16, requires_grad=True)
    gradients = []
    for _ in range(2):
        torch.manual_seed(1)
        gradients.append(torch.autograd.grad(mixture(x).square().sum(), x)[0])
    assert torch.equal(*gradients)


def test_a_token_holds_all_parameters_and_uses_those_of_its_experts() -> None:
    mixture = MixtureOfExperts(4, 8, experts=5, per_token=2, capacity=1.0)
    assert mixture.idle_parameters == 3 * (4 * 8 + 8 + 8 * 4 + 4)
