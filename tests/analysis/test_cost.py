"""The counted cost against formulas, for models of random sizes."""

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from tests.drawing import model_configs, varied_configs
from transduce import build_model
from transduce.analysis.cost import Cost, cost_of
from transduce.models.transformer.settings import TransformerConfig


@settings(max_examples=4)  # of some tenths of a second each
@given(c=model_configs(), length=st.integers(1, 20))
def test_the_cost_of_random_models_is_that_of_the_formulas(
    c: TransformerConfig, length: int
) -> None:
    cost = cost_of(c, length=length)
    check_operations(c, length, cost)
    check_parts(cost)
    check_cache(c, cost)


def check_operations(c: TransformerConfig, length: int, cost: Cost) -> None:
    """They are two for each weight used and each pair attended to."""
    width = c.h * (c.d_k + c.d_v)
    attention = 2 * (2 * c.d_model * width + length * width)  # projections; scores and weighted sum
    feed_forward = 2 * (2 * c.d_model * c.d_ff)
    output = 2 * c.d_model * c.vocab_size
    encoder = c.n_encoder_layers * (attention + feed_forward)
    decoder = c.n_decoder_layers * (2 * attention + feed_forward)
    expected = encoder + decoder + output
    assert cost.operations_per_token == pytest.approx(expected)


@settings(max_examples=2)
@given(c=varied_configs(experts=4, experts_every=1, n_layers=2), length=st.integers(1, 20))
def test_experts_count_where_they_are_used(c: TransformerConfig, length: int) -> None:
    one = c.model_copy(update={"experts": 0})
    layers = c.n_encoder_layers + c.n_decoder_layers
    found, dense = cost_of(c, length=length), cost_of(one, length=length)
    more = 2 * c.d_model * (2 * c.d_ff * (c.experts_per_token - 1) + c.experts)  # with the gate
    expected = dense.operations_per_token + layers * more
    assert found.operations_per_token == pytest.approx(expected)
    slots = c.expert_capacity * c.experts_per_token - c.experts_per_token  # that no token fills
    empty = layers * slots * 2 * 2 * c.d_model * c.d_ff
    assert found.training_operations_per_token == pytest.approx(3 * (expected + empty))
    network = 2 * c.d_model * c.d_ff + c.d_ff + c.d_model
    gate = 2 * c.experts * c.d_model  # and the width of its noise
    assert found.parameters - dense.parameters == layers * (3 * network + gate)
    idle = layers * (c.experts - c.experts_per_token) * network
    assert found.used_parameters == found.parameters - idle
    assert dense.used_parameters == dense.parameters


def check_parts(cost: Cost) -> None:
    """They add up to the whole."""
    whole = [part for part in cost.parts if part.depth == 0]
    assert sum(part.parameters for part in whole) == cost.parameters
    assert sum(part.operations_per_token for part in whole) == pytest.approx(
        cost.operations_per_token
    )
    parts = [part for part in cost.parts if part.depth == 1]
    layers = [part for part in whole if ", " in part.name]
    assert sum(part.parameters for part in parts) == sum(part.parameters for part in layers)


def check_cache(c: TransformerConfig, cost: Cost) -> None:
    """Decoding keeps the keys and values of every layer."""
    keys_and_values = 4 * c.n_decoder_layers * c.h * (c.d_k + c.d_v)
    cache = cost.cache
    assert cache.per_src_token == keys_and_values + 1  # whether it is padding
    assert cache.per_tgt_token == keys_and_values + 4  # which slot a hypothesis descends from
    assert cache.per_hypothesis == 0


@settings(max_examples=3)
@given(c=model_configs(norm="post"), length=st.integers(1, 20))
def test_activations_are_those_that_a_real_run_keeps(c: TransformerConfig, length: int) -> None:
    model = build_model(c)
    weights = {parameter.data_ptr() for parameter in model.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        address = tensor.untyped_storage().data_ptr()
        if address not in weights:
            kept[address] = tensor
        return tensor

    ids = torch.zeros(1, length, dtype=torch.long)
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = model(ids, ids)
    assert logits.requires_grad
    real = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    assert cost_of(c, length=length).activation_bytes_per_token == pytest.approx(real / length)


def test_a_process_that_has_built_no_other_model_can_count() -> None:
    """Operators of layers that the model has not are not missed."""
    code = (
        "from transduce.analysis.cost import cost_of\n"
        "from transduce.config.presets import preset_named\n"
        "print(cost_of(preset_named('rnn_tiny').model, length=5).parameters)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 0
