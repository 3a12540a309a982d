"""Convolutions against torch's own, whole and step by step."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from torch.testing import assert_close

from tests.drawing import seeds
from transduce.nn.initialise import initialise
from transduce.nn.mixers.convolution import Convolution, Projection
from transduce.nn.weight_norm import WeightNormLinear, fold_weight_norm

sizes = st.fixed_dictionaries(
    {
        "d_in": st.integers(1, 5),
        "d_out": st.integers(1, 5),
        "kernel": st.sampled_from([1, 3, 5]),
        "dilation": st.integers(1, 4),
        "causal": st.booleans(),
        "normalised": st.booleans(),
    }
)


def build(
    *, d_in: int, d_out: int, kernel: int, dilation: int, causal: bool, normalised: bool
) -> Convolution:
    n = kernel * d_in
    projection: Projection = nn.Linear(n, d_out)
    if normalised:
        projection = WeightNormLinear(n, d_out, std=n**-0.5)
    convolution = Convolution(projection, kernel=kernel, dilation=dilation, causal=causal)
    initialise(convolution)
    return convolution.double()


def by_torch(convolution: Convolution, x: Tensor) -> Tensor:
    """Compute the same by `F.conv1d`, with channels before positions."""
    projection, kernel = convolution.projection, convolution.kernel
    weight = projection.weight.view(-1, kernel, x.size(-1)).transpose(1, 2)
    right = 0 if convolution.causal else convolution.reach // 2
    padded = F.pad(x.transpose(1, 2), (convolution.reach - right, right))
    y = F.conv1d(padded, weight, projection.bias, dilation=convolution.dilation)
    return y.transpose(1, 2)


@given(size=sizes, length=st.integers(1, 12), seed=seeds)
def test_it_equals_conv1d_with_its_gradients(size: dict[str, int], length: int, seed: int) -> None:
    torch.manual_seed(seed)
    convolution = build(**size)  # type: ignore[arg-type]
    x = torch.randn(2, length, size["d_in"], dtype=torch.float64, requires_grad=True)
    found, expected = convolution(x), by_torch(convolution, x)
    assert_close(found, expected, rtol=0, atol=1e-12)
    weights = torch.randn_like(found)
    inputs = [x, *convolution.parameters()]
    gradients = [torch.autograd.grad((y * weights).sum(), inputs) for y in (found, expected)]
    assert_close(*gradients, rtol=0, atol=1e-12)


@given(size=sizes, seed=seeds)
def test_steps_equal_the_whole_sequence(size: dict[str, int], seed: int) -> None:
    torch.manual_seed(seed)
    convolution = build(**(size | {"causal": True}))  # type: ignore[arg-type]
    x = torch.randn(2, 3, 9, size["d_in"], dtype=torch.float64)  # [B, k, T, d_in]
    last = convolution.start(x, hypotheses=3)
    steps = [convolution.step(x[:, :, position], last) for position in range(9)]
    whole = convolution(x.flatten(0, 1)).view(2, 3, 9, -1)
    assert_close(torch.stack(steps, dim=2), whole, rtol=0, atol=1e-12)


def test_a_kernel_of_one_keeps_nothing() -> None:
    convolution = Convolution(nn.Linear(4, 4), kernel=1, causal=True)
    assert convolution.start(torch.zeros(2, 7), hypotheses=3) is None


def test_a_centred_convolution_has_no_steps_and_no_even_kernel() -> None:
    with pytest.raises(AssertionError, match="knows no later inputs"):
        Convolution(nn.Linear(6, 4), kernel=3).start(torch.zeros(2, 7), hypotheses=3)
    with pytest.raises(AssertionError, match="2 inputs have no centre"):
        Convolution(nn.Linear(6, 4), kernel=2)


def test_inputs_are_cast_once_under_autocast() -> None:
    convolution = Convolution(nn.Linear(12, 4), kernel=3)
    with torch.autocast("cpu", torch.bfloat16):
        assert convolution._inputs(torch.zeros(1, 5, 4)).dtype == torch.bfloat16


def test_normalised_weights_are_those_of_torch() -> None:
    ours = WeightNormLinear(6, 4, std=0.5)
    initialise(ours)
    theirs = weight_norm(nn.Linear(6, 4))
    with torch.no_grad():
        ours.g.mul_(torch.rand(4, 1))
        theirs.parametrizations["weight"].original0.copy_(ours.g)
        theirs.parametrizations["weight"].original1.copy_(ours.v)
        theirs.bias.copy_(ours.bias.fill_(0.3))
    x = torch.randn(5, 6)
    assert_close(ours(x), theirs(x))


def test_new_normalised_weights_have_the_asked_for_spread() -> None:
    projection = WeightNormLinear(500, 400, std=0.05)
    initialise(projection)
    assert projection.weight.std().item() == pytest.approx(0.05, rel=0.02)
    assert_close(projection.weight, projection.v)


def test_folded_weights_compute_the_same() -> None:
    convolution = build(d_in=3, d_out=4, kernel=3, dilation=2, causal=True, normalised=True)
    x = torch.randn(2, 7, 3, dtype=torch.float64)
    before = convolution(x)
    fold_weight_norm(convolution)
    assert isinstance(convolution.projection, nn.Linear)
    assert torch.equal(convolution(x), before)
    assert math.prod(convolution.projection.weight.shape) == 4 * 9
