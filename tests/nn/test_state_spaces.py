"""State spaces for all positions at once are their recurrences, step by step, in float64."""

import math
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import seeds
from tests.nn.distances import random_states
from transduce.nn.initialise import initialise
from transduce.nn.mixers.state_spaces import mamba as mamba_module
from transduce.nn.mixers.state_spaces import scan as scan_module
from transduce.nn.mixers.state_spaces.mamba import Mamba, SelectiveScan, selective_scan
from transduce.nn.mixers.state_spaces.s4 import S4, DiagonalStateSpace
from transduce.nn.mixers.state_spaces.scan import scan
from transduce.nn.step_state import BeamHistory, StepContext

D = 6
KINDS = [Mamba, S4]


def same_gradients(found: Tensor, expected: Tensor, leaves: list[Tensor]) -> None:
    assert_close(found, expected, rtol=0, atol=1e-11)
    upstream = random_states(*found.shape, seed=1)
    mine, its = (torch.autograd.grad(y, leaves, upstream) for y in (found, expected))
    assert_close(mine, its, rtol=0, atol=1e-10)


@given(
    length=st.integers(1, 70),
    begins=st.booleans(),
    short=st.sampled_from([0, 10, 64]),
    seed=seeds,
)
def test_a_scan_is_its_recurrence_forward_and_backward(
    length: int, begins: bool, short: int, seed: int
) -> None:
    decay = random_states(2, length, 3, 2, seed=seed).sigmoid().requires_grad_()
    inputs = random_states(2, length, 3, 2, seed=seed + 1).requires_grad_()
    first = random_states(2, 3, 2, seed=seed + 2).requires_grad_()
    state, states = first if begins else torch.zeros_like(first), []
    for t in range(length):
        state = decay[:, t] * state + inputs[:, t]
        states.append(state)
    leaves = [decay, inputs, *([first] if begins else [])]
    with patch.object(scan_module, "SHORT", short):
        found = scan(decay, inputs, first if begins else None)
        same_gradients(found, torch.stack(states, dim=1), leaves)


def test_torch_accepts_the_scan_as_an_operator() -> None:
    decay, inputs = (torch.rand(1, 5, 2, dtype=torch.float64, requires_grad=True) for _ in range(2))
    torch.library.opcheck(torch.ops.transduce.scan.default, (decay, inputs, False))


@given(length=st.integers(1, 40), segment=st.sampled_from([1, 7, 64]), seed=seeds)
def test_a_selective_scan_is_the_papers_recurrence(length: int, segment: int, seed: int) -> None:
    u, delta = (random_states(2, length, D, seed=seed + n) for n in range(2))
    a, b, c = (
        -random_states(D, 3, seed=seed + 2).exp(),
        *(random_states(2, length, 3, seed=seed + n) for n in (3, 4)),
    )
    leaves = [x.requires_grad_() for x in (u, delta.sigmoid(), a, b, c)]
    u, delta, a, b, c = leaves
    h, outputs = torch.zeros(2, D, 3).double(), []
    for t in range(length):
        kept = torch.exp(delta[:, t, :, None] * a)
        h = kept * h + delta[:, t, :, None] * b[:, t, None, :] * u[:, t, :, None]
        outputs.append((h * c[:, t, None, :]).sum(dim=-1))
    with patch.object(mamba_module, "SEGMENT", segment):
        same_gradients(selective_scan(*leaves), torch.stack(outputs, dim=1), leaves)


@given(length=st.integers(1, 50), d_state=st.sampled_from([2, 8]), seed=seeds)
def test_s4_is_its_complex_recurrence_forward_and_backward(
    length: int, d_state: int, seed: int
) -> None:
    torch.manual_seed(seed)
    space, layer = DiagonalStateSpace(D, d_state), S4(D, d_state=d_state, bidirectional=False)
    initialise(layer.double())
    space = layer.onward
    x = random_states(2, length, D, seed=seed).requires_grad_()
    a = torch.complex(-space.log_decay.exp(), space.frequency)
    kept = torch.exp(a * space.log_step.exp()[:, None])
    added, c = (kept - 1) / a, torch.view_as_complex(space.c)
    h, outputs = torch.zeros(2, D, d_state // 2, dtype=torch.complex128), []
    for t in range(length):
        h = kept * h + added * x[:, t, :, None]
        outputs.append(2 * (c * h).sum(dim=-1).real)
    leaves = [x, *space.parameters()]
    same_gradients(layer._convolved(x), torch.stack(outputs, dim=1), leaves)


def layer_of(kind: type[Mamba] | type[S4], seed: int, *, bidirectional: bool) -> Mamba | S4:
    torch.manual_seed(seed)
    layer = kind(D, d_state=4, bidirectional=bidirectional)
    initialise(layer)
    return layer.double()


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
def test_steps_are_the_causal_forward(kind: type[Mamba] | type[S4], seed: int) -> None:
    layer, b, k, steps = layer_of(kind, seed, bidirectional=False), 2, 3, 9
    x = random_states(b * k, steps, D, seed=seed)
    expected = layer(x).view(b, k, steps, D)
    past = layer.empty_cache(x.view(b, -1), hypotheses=k, max_steps=steps)
    history = BeamHistory.empty(b, k, steps, torch.device("cpu"))
    for step in range(steps):
        at = StepContext(torch.tensor([step]), reach=steps, history=history)
        found = layer.step(x[:, step].view(b, k, D), past, at)  # type: ignore[arg-type]
        assert_close(found, expected[:, :, step], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds, data=st.data())
def test_both_directions_read_all_and_no_padding(
    kind: type[Mamba] | type[S4], seed: int, data: st.DataObject
) -> None:
    layer = layer_of(kind, seed, bidirectional=True)
    lengths = [data.draw(st.integers(1, 12)) for _ in range(3)]
    x = random_states(3, max(lengths), D, seed=seed)
    real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    together = layer(x, real[:, None, None])
    for row, length in enumerate(lengths):
        alone = layer(x[row : row + 1, :length])
        assert_close(together[row : row + 1, :length], alone, rtol=0, atol=1e-12)
    last = x[:1, : lengths[0]].clone()
    last[:, -1] += 1
    if lengths[0] > 1:
        assert not torch.equal(layer(last)[0, 0], layer(x[:1, : lengths[0]])[0, 0])


def test_mamba_in_both_directions_is_two_of_them_added() -> None:
    layer, x = layer_of(Mamba, 1, bidirectional=True), random_states(1, 5, D, seed=1)
    assert isinstance(layer, Mamba)
    assert isinstance(layer.back, SelectiveScan)
    u, gate = layer.w_in(x).chunk(2, dim=-1)
    turned = torch.flip(layer.back(torch.flip(u, [1])), [1])
    y = (layer.onward(u) + turned) * gate * torch.sigmoid(gate)
    assert_close(layer(x), y @ layer.w_o.weight.T, rtol=0, atol=1e-12)


def test_the_steps_of_new_layers_lie_between_the_papers_bounds() -> None:
    layer = layer_of(Mamba, 1, bidirectional=False)
    assert isinstance(layer, Mamba)
    steps = torch.nn.functional.softplus(layer.onward.w_delta.bias)
    assert 1e-3 - 1e-9 <= steps.min() < steps.max() <= 1e-1 + 1e-9
    assert torch.exp(layer.onward.log_a[0]).tolist() == pytest.approx([1, 2, 3, 4])
    diagonal = layer_of(S4, 1, bidirectional=False).onward
    assert isinstance(diagonal, DiagonalStateSpace)
    assert diagonal.frequency[0].tolist() == pytest.approx([0, math.pi])
