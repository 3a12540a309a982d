"""Transformers whose layers mix positions in other ways: settings, abilities, costs."""

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from tests.drawing import VOCAB_SIZE, random_ids, transformer
from transduce.analysis.cost import cost_of
from transduce.config.presets import preset_named
from transduce.errors import ConfigError, InputError
from transduce.export.abilities import ENGINES as FORMATS
from transduce.export.abilities import foreign_setting
from transduce.models.transformer.mixer_rules import DECODER_MIXERS, ENCODER_MIXERS
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn.mixers.random_features import RandomFeatureAttention
from transduce.translation.inference import prepare_for_inference

SIZES: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "n_layers": 2,
    "d_model": 8,
    "d_ff": 12,
    "h": 2,
    "max_positions": 64,
    "window": 6,
    "low_rank": 5,
    "random_features": 8,
    "d_state": 4,
}


def config(**changes: Any) -> TransformerConfig:
    return TransformerConfig.model_validate(SIZES | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoder_mixers": ["linformer"]}, r"decoder_mixers has linformer, which sums .* causal"),
        ({"decoder_mixers": "longformer"}, r"decoder_mixers has longformer, .* no causal form"),
        ({"encoder_mixers": "mambo"}, r"encoder_mixers has 'mambo'; use attention, window"),
        ({"encoder_mixers": []}, r"encoder_mixers"),
        ({"encoder_mixers": ["s4"] * 3}, r"names 3 mixers, but there are 2 layers"),
        ({"encoder_mixers": "performer", "positions": "t5"}, r"positions=t5 .* performer does not"),
        ({"encoder_mixers": "linformer", "positions": "alibi"}, r"alibi .* linformer does not"),
        (
            {"decoder_mixers": "performer", "attention_score": "additive"},
            r"attention_score=additive has no random features",
        ),
        (
            {"decoder_mixers": "performer", "p_drop_attention": 0.1},
            r"p_drop_attention=0.1 drops attention weights, which performer",
        ),
        ({"encoder_mixers": "s4", "d_state": 3}, r"d_state=3 is odd"),
        ({"cross_mixer": "mamba"}, r"cross_mixer"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        preset_named("tiny").with_changes({"model": changes})


def test_a_list_of_mixers_is_repeated_over_the_layers() -> None:
    of = transformer(config(n_encoder_layers=5, encoder_mixers=["mamba", "attention"]))
    kinds = [type(layer.mixer).__name__ for layer in of.encoder]
    assert kinds == ["Mamba", "MultiHeadAttention", "Mamba", "MultiHeadAttention", "Mamba"]


@pytest.mark.parametrize("name", ENCODER_MIXERS)
def test_abilities_are_honest(name: str) -> None:
    c = config(encoder_mixers=name)
    abilities = transformer(c).abilities
    assert abilities.packed_sequences == (name in ("attention", "window"))
    assert abilities.recorded_step
    assert bool(abilities.exports) == (name == "attention")
    for to in FORMATS:
        reason = foreign_setting(c, to)
        assert (reason is None) == (name == "attention")
        assert reason is None or f"a mixer is {name}" in reason


@pytest.mark.parametrize("name", ENCODER_MIXERS)
def test_what_has_weights_between_positions_shows_them(name: str) -> None:
    of = transformer(config(encoder_mixers=["attention", name], decoder_mixers=["s4", "attention"]))
    maps = of.eval().attention_maps(random_ids([5], seed=1), random_ids([4], seed=2))
    assert maps.cross.shape == (2, 1, 2, 4, 5)
    assert maps.decoder is None
    has_weights = name in ("attention", "window", "longformer")
    assert (maps.encoder is None) != has_weights


def test_attention_to_sums_of_the_source_has_nothing_to_show() -> None:
    of = transformer(config(cross_mixer="linformer"))
    assert not of.abilities.attention_maps
    with pytest.raises(InputError, match="no attention to show"):
        of.attention_maps(random_ids([5], seed=1), random_ids([4], seed=2))


@pytest.mark.parametrize("name", ENCODER_MIXERS)
def test_operations_grow_with_the_length_only_where_attention_is_full(name: str) -> None:
    changes = {"encoder_mixers": name, "decoder_mixers": "s4", "cross_mixer": "linformer"}
    c = config(**changes, max_positions=2048, d_state=2)
    short, long = (cost_of(c, length=n).operations_per_token for n in (512, 2048))
    if name == "attention":
        assert long > 2 * short
    else:
        assert long < 1.2 * short


@pytest.mark.parametrize("name", DECODER_MIXERS)
def test_a_search_keeps_a_fixed_state_or_keys_of_each_token(name: str) -> None:
    cache = cost_of(config(decoder_mixers=name), length=8).cache
    keeps_keys = name in ("attention", "window")
    slot = 4  # of the table that says which hypothesis a slot belongs to
    assert cache.per_tgt_token == slot + (2 * 2 * 8 * 4 if keeps_keys else 0)
    assert (cache.per_hypothesis == 0) == keeps_keys


def test_the_directions_of_layers_differ_and_are_no_weights() -> None:
    of = transformer(config(encoder_mixers="performer", decoder_mixers="performer"))
    mixers = [layer.mixer for layer in (*of.encoder, *of.decoder)]
    directions = [m.directions for m in mixers if isinstance(m, RandomFeatureAttention)]
    assert len({tuple(one.flatten().tolist()) for one in directions}) == 4
    assert not [name for name in of.state_dict() if "directions" in name]


@torch.inference_mode()
def test_in_bfloat16_the_rates_of_state_spaces_keep_their_precision() -> None:
    c = config(encoder_mixers=["s4", "mamba"], d_state=16)
    exact, ours = transformer(c).eval(), prepare_for_inference(transformer(c), precision="bf16")
    rates = {"log_step", "log_decay", "frequency", "log_a"}
    for name, weight in ours.named_parameters():
        is_rate = name.rpartition(".")[2] in rates
        assert weight.dtype == (torch.float32 if is_rate else torch.bfloat16), name
        assert not is_rate or torch.equal(weight, exact.get_parameter(name)), name
    src = random_ids([40], seed=1)
    assert_close(ours.encode(src).states.float(), exact.encode(src).states, rtol=0, atol=0.1)


def test_gradients_reach_every_weight() -> None:
    mixers = ["mamba", "s4", "performer", "linformer", "longformer", "window", "attention"]
    of = transformer(
        config(
            n_encoder_layers=7,
            n_decoder_layers=5,
            encoder_mixers=mixers,
            decoder_mixers=list(DECODER_MIXERS),
            cross_mixer="linformer",
            max_positions=9,
        )
    )
    of(random_ids([9, 4], seed=1), random_ids([9, 7], seed=2)).square().sum().backward()
    unreached = [
        name
        for name, weight in of.named_parameters()
        if weight.grad is None or not torch.any(weight.grad != 0)
    ]
    assert unreached == []
