import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from transduce.errors import InputError
from transduce.nn.positions import LearnedPositions, Positions, SinusoidalPositions, sinusoids

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
    turns = ((table[1:, 0::2] >= 0) & (table[:-1, 0::2] < 0)).sum(dim=0)  # upward crossings of zero
    assert turns[0].item() == pytest.approx(70_000 / (2 * math.pi), abs=1)
    assert turns[-1].item() == 1


@pytest.mark.parametrize("kind", [SinusoidalPositions, LearnedPositions])
@given(length=st.integers(1, 40), place=st.integers(0, 23))
def test_rows_are_those_of_the_table_and_no_further(
    kind: type[SinusoidalPositions | LearnedPositions], length: int, place: int
) -> None:
    positions: Positions = kind(24, 8)
    with torch.no_grad():
        positions.table.copy_(torch.randn(24, 8))
    assert torch.equal(positions.at(torch.tensor([place])), positions(24)[place : place + 1])
    if length <= 24:
        assert torch.equal(positions(length), positions.table[:length])
    else:
        with pytest.raises(InputError, match=f"of {length} tokens is longer than .*=24"):
            positions(length)


def test_only_learned_positions_are_weights() -> None:
    assert list(SinusoidalPositions(8, 4).state_dict()) == []
    assert list(LearnedPositions(8, 4).state_dict()) == ["table"]
