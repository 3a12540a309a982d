"""A model with packed weights computes the same as before."""

import copy

import pytest
import torch
from hypothesis import given
from torch import nn
from torch.testing import assert_close

from tests.drawing import lengths_of, models, padded_ids
from transduce.models.transformer.model import Transformer
from transduce.nn.packed_weights import PackedLinear, can_pack, pack

pytestmark = pytest.mark.skipif(not can_pack(), reason="this build of torch has no oneDNN")


# A norm of two numbers is nearly a step, which would turn rounding into a difference: hence 16.
@given(model=models(d_model=16), src=padded_ids(sentences=3), tgt=padded_ids(sentences=3))
def test_a_packed_model_computes_the_same(
    model: Transformer, src: torch.Tensor, tgt: torch.Tensor
) -> None:
    model = model.float()
    packed = copy.deepcopy(model)
    pack(packed)
    assert not any(isinstance(module, nn.Linear) for module in packed.modules())
    expected, found = model(src, tgt), packed(src, tgt)
    for row, length in enumerate(lengths_of(tgt)):
        assert_close(found[row, :length], expected[row, :length], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 7), (4, 7), (3, 5, 7), (2, 0, 7)])
def test_a_packed_projection_takes_any_number_of_rows(shape: tuple[int, ...], bias: bool) -> None:
    linear = nn.Linear(7, 300, bias=bias)
    x = torch.randn(shape)
    found = PackedLinear(linear.weight, linear.bias)(x)
    assert_close(found, linear(x), rtol=1e-5, atol=1e-5)


def test_a_packed_projection_can_be_copied_but_not_converted() -> None:
    linear = nn.Linear(7, 300)
    packed = PackedLinear(linear.weight, linear.bias)
    x = torch.randn(4, 7)
    assert torch.equal(copy.deepcopy(packed)(x), packed(x))
    with pytest.raises(TypeError, match="load the model again"):
        packed.to(torch.bfloat16)
