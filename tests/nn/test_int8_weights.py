"""int8 weights compute what their numbers say, exactly, and each row by itself."""

import copy
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

import transduce
from tests.translation.likely import random_model, saved, sentences
from transduce.errors import InputError
from transduce.nn.embedding import Embedding
from transduce.nn.int8_weights import Int8Embedding, Int8Linear, can_quantize, quantize
from transduce.translation import inference

needs_vnni = pytest.mark.skipif(not can_quantize(), reason="the processor lacks VNNI")


def in_float64(linear: nn.Linear, x: Tensor) -> Tensor:
    """Round weights and inputs as int8 does, and multiply what is left in float64."""
    weight, bias = linear.weight.detach(), linear.bias
    w_scale = weight.abs().amax(1, keepdim=True) / 127
    x_scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / 127
    rounded = (x / x_scale).round().double() @ (weight / w_scale).round().double().T
    found = rounded * w_scale.T.double() * x_scale.double()
    return found if bias is None else found + bias.detach().double()


@needs_vnni
@given(rows=st.integers(1, 70), width=st.integers(1, 300), bias=st.booleans())
@settings(max_examples=30)
def test_it_is_the_product_of_the_rounded_numbers(rows: int, width: int, bias: bool) -> None:
    torch.manual_seed(rows * 1000 + width)
    linear, x = nn.Linear(width, 90, bias=bias), torch.randn(rows, 1, width)
    found = Int8Linear.of(linear.weight, linear.bias)(x)
    assert_close(found.double(), in_float64(linear, x), rtol=1e-5, atol=1e-5)


@needs_vnni
def test_a_row_does_not_depend_on_others_bit_for_bit() -> None:
    layer = Int8Linear.of(torch.randn(500, 256))
    x = torch.randn(64, 256) * torch.logspace(-3, 3, 64)[:, None]
    together = layer(x)
    assert all(torch.equal(together[n], layer(x[n : n + 1])[0]) for n in range(64))
    assert torch.equal(layer(torch.zeros(2, 256)), torch.zeros(2, 500))


@needs_vnni
def test_it_can_be_copied_but_not_converted() -> None:
    layer = Int8Linear.of(torch.randn(30, 7), torch.randn(30))
    x = torch.randn(4, 7)
    assert torch.equal(copy.deepcopy(layer)(x), layer(x))
    with pytest.raises(TypeError, match="load the model again"):
        layer.to(torch.bfloat16)


@needs_vnni
@pytest.mark.parametrize("tied", [True, False])
def test_the_matrix_of_the_output_stays_in_float32_for_shortlists(tied: bool) -> None:
    embedding = Embedding(30, 8, tied=tied)
    embedding.init_weights()
    model = nn.Sequential(embedding)
    quantize(model)
    assert isinstance(model[0], Int8Embedding)
    assert torch.equal(model[0].projection, embedding.projection)


@needs_vnni
def test_a_model_translates_the_same_in_any_batch(tmp_path: Path) -> None:
    translator = transduce.load(
        saved(tmp_path / "m", random_model(seed=5)), "cpu", precision="int8"
    )
    texts = list(sentences(6))
    for text, together in zip(texts, translator.translate(texts), strict=True):
        [alone] = translator.translate([text])
        assert alone.text == together.text
        assert alone.score == pytest.approx(together.score, rel=1e-4)


def test_without_the_instructions_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference, "can_quantize", lambda: False)
    folder = saved(tmp_path / "m", random_model(seed=5))
    with pytest.raises(InputError, match="needs a processor with the instructions VNNI"):
        transduce.load(folder, "cpu", precision="int8")
