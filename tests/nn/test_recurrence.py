"""Recurrent layers equal torch's own, on packed sentences and cell by cell."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from tests.drawing import seeds
from transduce.nn.initialise import initialise
from transduce.nn.mixers.recurrence import (
    BidirectionalRecurrence,
    CellName,
    Recurrence,
    State,
    reversal_of,
)

every_cell = pytest.mark.parametrize("name", ["lstm", "gru"])
NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def drawn_layer(d_in: int, d_hidden: int, name: CellName, seed: int) -> Recurrence:
    torch.manual_seed(seed)
    layer = Recurrence(d_in, d_hidden, cell=name).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)  # biases too
    return layer


def copy_into(theirs: nn.Module, ours: Recurrence, suffix: str) -> None:
    for part in NAMES:
        getattr(theirs, f"{part}{suffix}").data.copy_(getattr(ours, part))


@every_cell
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    d_in=st.integers(1, 6),
    d_hidden=st.integers(1, 6),
    seed=seeds,
)
def test_both_directions_equal_torchs_bidirectional_layer_on_packed_sentences(
    name: CellName, lengths: list[int], d_in: int, d_hidden: int, seed: int
) -> None:
    both = BidirectionalRecurrence(
        drawn_layer(d_in, d_hidden, name, seed), drawn_layer(d_in, d_hidden, name, seed + 1)
    )
    make = nn.LSTM if name == "lstm" else nn.GRU
    theirs = make(d_in, d_hidden, bidirectional=True, batch_first=True).double()
    copy_into(theirs, both.forward_layer, "_l0")
    copy_into(theirs, both.backward_layer, "_l0_reverse")
    x = torch.randn(len(lengths), max(lengths), d_in, dtype=torch.float64)
    real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    packed = pack_padded_sequence(x, torch.tensor(lengths), True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(theirs(packed)[0], batch_first=True)
    found = both(x, reversal_of(real)) * real[:, :, None]
    assert_close(found, expected, rtol=0, atol=1e-12)


@every_cell
@given(d_hidden=st.integers(1, 6), d_fed=st.integers(0, 4), length=st.integers(1, 6), seed=seeds)
def test_steps_equal_the_whole_sequence_and_torchs_cells(
    name: CellName, d_hidden: int, d_fed: int, length: int, seed: int
) -> None:
    layer = drawn_layer(3 + d_fed, d_hidden, name, seed)
    x = torch.randn(2, length, 3 + d_fed, dtype=torch.float64)
    first: State = tuple(
        torch.randn(2, d_hidden, dtype=torch.float64) for _ in range(1 + (name == "lstm"))
    )
    whole = layer(x, first)
    theirs = (nn.LSTMCell if name == "lstm" else nn.GRUCell)(3 + d_fed, d_hidden).double()
    copy_into(theirs, layer, "")
    cell, inputs = layer.cell(x, d_fed=d_fed), layer.inputs(x[..., :3])
    state = tuple(part[:, None] for part in first)
    expected = first
    for at in range(length):
        fed = x[:, at : at + 1, 3:] if d_fed else None
        state = cell(inputs[:, at : at + 1], state, fed)
        after = theirs(x[:, at], expected if name == "lstm" else expected[0])
        expected = after if name == "lstm" else (after,)
        for mine, its in zip(state, expected, strict=True):
            assert_close(mine[:, 0], its, rtol=0, atol=1e-12)
        assert_close(whole[:, at], expected[0], rtol=0, atol=1e-12)


@every_cell
def test_a_sentence_of_padding_alone_is_read_too(name: CellName) -> None:
    both = BidirectionalRecurrence(drawn_layer(2, 3, name, 1), drawn_layer(2, 3, name, 2))
    real = torch.zeros(1, 4, dtype=torch.bool)
    assert both(torch.ones(1, 4, 2, dtype=torch.float64), reversal_of(real)).isfinite().all()


@every_cell
def test_gradients_of_float32_equal_those_of_float64(name: CellName) -> None:
    """Torch has other kernels for float32 on a CPU."""

    def gradients(dtype: torch.dtype) -> list[Tensor]:
        layer = drawn_layer(5, 4, name, 3).to(dtype)
        x = torch.randn(3, 6, 5, generator=torch.Generator().manual_seed(1)).to(dtype)
        first = tuple(torch.full((3, 4), 0.3, dtype=dtype) for _ in range(1 + (name == "lstm")))
        given = [x, *first, *layer.parameters()]
        for tensor in given:
            tensor.requires_grad_()
        output = layer(x, first)
        weights = torch.linspace(-1, 1, output.numel(), dtype=dtype).view_as(output)
        return list(torch.autograd.grad((output * weights).sum(), given))

    for single, double in zip(gradients(torch.float32), gradients(torch.float64), strict=True):
        assert_close(single.double(), double, rtol=1e-4, atol=1e-5)


def test_a_new_lstm_remembers_and_carries() -> None:
    layer = Recurrence(4, 6, cell="lstm")
    initialise(layer)
    recurrent = layer.weight_hh.detach()[:6]
    assert_close(recurrent @ recurrent.T, torch.eye(6))
    assert_close(layer.bias_ih.detach().view(4, 6).sum(dim=1), torch.tensor([0.0, 6, 0, 0]))
