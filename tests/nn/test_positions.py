import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import seeds
from tests.nn.distances import random_states
from transduce.errors import InputError
from transduce.nn.mixers.positions import (
    DistancePenalty,
    LearnedPositions,
    Positions,
    Rotation,
    SinusoidalPositions,
    sinusoids,
)

widths = st.integers(1, 64).map(lambda n: 2 * n)


@given(d_model=widths, pos=st.integers(0, 4000), data=st.data())
def test_sinusoids_are_the_papers_formula(d_model: int, pos: int, data: st.DataObject) -> None:
    i = data.draw(st.integers(0, d_model // 2 - 1))
    angle = pos / 10000 ** (2 * i / d_model)
    row = sinusoids(pos + 1, d_model)[pos]
    assert row[2 * i].item() == pytest.approx(math.sin(angle), abs=1e-7)
    assert row[2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-7)


@given(d_model=widths, k=st.integers(0, 500))
def test_a_shift_by_k_is_one_linear_map_for_all_positions(d_model: int, k: int) -> None:
    table = sinusoids(600 + k, d_model)
    turn = torch.zeros(d_model, d_model, dtype=torch.float64)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        sine, cosine = math.sin(angle), math.cos(angle)
        turn[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor([[cosine, sine], [-sine, cosine]])
    assert_close(table[:600].double() @ turn.T, table[k:].double(), rtol=0, atol=2e-7)


def test_wavelengths_run_from_2_pi_towards_10000_times_2_pi() -> None:
    table = sinusoids(70_000, 512)
    rises_through_0 = (table[1:, 0::2] >= 0) & (table[:-1, 0::2] < 0)
    crossings = rises_through_0.sum(dim=0)
    assert crossings[0].item() == pytest.approx(70_000 / (2 * math.pi), abs=1)
    assert crossings[-1].item() == 1


@pytest.mark.parametrize("kind", [SinusoidalPositions, LearnedPositions])
@given(length=st.integers(1, 40), position=st.integers(0, 23))
def test_positions_are_rows_of_the_table_and_more_are_refused(
    kind: type[SinusoidalPositions | LearnedPositions], length: int, position: int
) -> None:
    positions: Positions = kind(24, 8)
    with torch.no_grad():
        positions.table.copy_(torch.randn(24, 8))
    assert torch.equal(positions.at(torch.tensor([position]))[0], positions(24)[position])
    if length <= 24:
        assert torch.equal(positions(length), positions.table[:length])
    else:
        with pytest.raises(InputError, match=f"of {length} tokens is longer than .*=24"):
            positions(length)


def test_only_learned_positions_are_weights() -> None:
    assert list(SinusoidalPositions(8, 4).state_dict()) == []
    assert list(LearnedPositions(8, 4).state_dict()) == ["table"]


@given(h=st.integers(1, 8), max_distance=st.integers(0, 9), t=st.integers(1, 7))
def test_penalties_fall_with_the_distance_by_the_slope_of_the_head(
    h: int, max_distance: int, t: int
) -> None:
    q, positions = torch.randn(2, h, t, 4), torch.arange(t)
    dense = DistancePenalty(h, max_distance)(q).dense(positions - positions[:, None])[0]
    for head in range(h):
        slope = 2 ** (-8 * (head + 1) / h)
        for i in range(t):
            for j in range(t):
                expected = -slope * min(abs(i - j), max_distance)
                assert dense[head, i, j].item() == pytest.approx(expected, rel=1e-6, abs=0)


@given(half=st.integers(1, 6), i=st.integers(0, 40), j=st.integers(0, 40), seed=seeds)
def test_products_after_rotation_depend_on_the_distance_alone(
    half: int, i: int, j: int, seed: int
) -> None:
    d_k, shift = 2 * half, 100
    rotation = Rotation(d_k, 150).double()
    q, k = random_states(2, d_k, seed=seed)

    def at(x: Tensor, position: int) -> Tensor:
        rotated: Tensor = rotation(x, rotation.positions.at(torch.tensor([position])))[0]
        return rotated

    # The table of angles is rounded to float32.
    assert_close(at(q, i) @ at(k, j), at(q, i + shift) @ at(k, j + shift), rtol=0, atol=1e-5)
    assert_close(at(q, i).norm(), q.norm(), rtol=1e-6, atol=0)
    assert torch.equal(at(q, 0), q)


@given(half=st.integers(1, 6), position=st.integers(0, 100), seed=seeds)
def test_rotation_turns_pairs_by_the_angles_of_the_sinusoids(
    half: int, position: int, seed: int
) -> None:
    rotation, x = Rotation(2 * half, 101).double(), random_states(2 * half, seed=seed)
    turned = rotation(x, rotation.positions(101)[position])
    for i in range(half):
        angle = torch.tensor(position / 10000 ** (2 * i / (2 * half))).double()
        pair = torch.complex(x[i], x[i + half]) * torch.exp(1j * angle)
        assert_close(torch.complex(turned[i], turned[i + half]), pair, rtol=0, atol=1e-6)
