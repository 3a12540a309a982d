"""Averages of weights are what the formulas say."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.drawing import models, seeds
from transduce.models.transformer.model import Transformer
from transduce.training.run.average import MovingAverage, averaged
from transduce.training.run.checkpoint import Checkpoint, Checkpoints, Progress


def weights(seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "a": torch.randn(5, 3, generator=generator) * 10.0 ** (seed % 7 - 3),
        "b": torch.randn((), generator=generator).double(),
    }


@pytest.fixture
def seven(tmp_path: Path) -> list[Checkpoint]:
    checkpoints = Checkpoints(tmp_path, keep_last=7, keep_best=1)
    return [
        checkpoints.save(
            Progress(step=step), weights=weights(step), moments={}, moving_average=None
        )
        for step in range(7)
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_the_average_is_the_mean_of_the_weights(seven: list[Checkpoint], count: int) -> None:
    found = averaged(seven[:count])
    for name, average in found.items():
        rows = torch.stack([weights(step)[name].double() for step in range(count)])
        assert average.dtype == weights(0)[name].dtype
        torch.testing.assert_close(average.double(), rows.mean(dim=0), rtol=1e-7, atol=0)
    assert found.keys() == weights(0).keys()


@pytest.mark.parametrize("count", [1, 3, 7])
def test_the_average_of_equals_is_that_bit_for_bit(seven: list[Checkpoint], count: int) -> None:
    found = averaged([seven[4]] * count)
    assert all(torch.equal(found[name], tensor) for name, tensor in weights(4).items())


def test_the_order_changes_nothing_that_shows(seven: list[Checkpoint]) -> None:
    forwards, backwards = averaged(seven), averaged(seven[::-1])
    for name in forwards:
        torch.testing.assert_close(forwards[name], backwards[name], rtol=1e-7, atol=0)


@given(model=models(), decay=st.floats(0, 0.999), steps=st.integers(0, 5), seed=seeds)
def test_a_moving_average_follows_the_weights(
    model: Transformer, decay: float, steps: int, seed: int
) -> None:
    average = MovingAverage(model, decay)
    expected = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator))
                expected[name] = decay * expected[name] + (1 - decay) * parameter
        average.update()
    assert average.weights.keys() == expected.keys()
    for name, tensor in average.weights.items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-9, atol=1e-9)


@given(model=models(), decay=st.floats(0, 0.999))
def test_a_moving_average_of_what_stands_still_stands_still(
    model: Transformer, decay: float
) -> None:
    average = MovingAverage(model, decay)
    for _ in range(3):
        average.update()
    for name, parameter in model.named_parameters():
        assert torch.equal(average.weights[name], parameter)
        assert average.weights[name].data_ptr() != parameter.data_ptr()
