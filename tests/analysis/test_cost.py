"""The counted cost against formulas, for models of random sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import model_configs
from transduce.analysis.cost import cost_of
from transduce.config.schema import ModelConfig


@given(c=model_configs(), length=st.integers(1, 20))
def test_operations_are_two_for_each_weight_used_and_each_pair_attended(
    c: ModelConfig, length: int
) -> None:
    width = c.h * (c.d_k + c.d_v)
    attention = 2 * (2 * c.d_model * width + length * width)  # projections; scores and weighted sum
    feed_forward = 2 * (2 * c.d_model * c.d_ff)
    output = 2 * c.d_model * c.vocab_size
    expected = c.n_layers * (3 * attention + 2 * feed_forward) + output
    assert cost_of(c, length=length).operations_per_token == pytest.approx(expected)


@given(c=model_configs(), length=st.integers(1, 20))
def test_parts_add_up_to_the_whole(c: ModelConfig, length: int) -> None:
    cost = cost_of(c, length=length)
    whole = [part for part in cost.parts if part.depth == 0]
    assert sum(part.parameters for part in whole) == cost.parameters
    assert sum(part.operations_per_token for part in whole) == pytest.approx(
        cost.operations_per_token
    )
    parts = [part for part in cost.parts if part.depth == 1]
    layers = [part for part in whole if part.name.endswith("layers")]
    assert sum(part.parameters for part in parts) == sum(part.parameters for part in layers)


@given(c=model_configs(), length=st.integers(1, 20))
def test_decoding_keeps_the_keys_and_values_of_every_layer(c: ModelConfig, length: int) -> None:
    expected = 4 * c.n_layers * c.h * (c.d_k + c.d_v)
    assert cost_of(c, length=length).cache_bytes_per_token == expected


def test_activations_grow_with_the_model() -> None:
    narrow, wide = (cost_of(ModelConfig(n_layers=n), length=16) for n in (1, 2))
    assert 0 < narrow.activation_bytes_per_token < wide.activation_bytes_per_token
