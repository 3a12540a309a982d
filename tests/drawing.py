"""Random models and sentences for property tests."""

from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from transduce.config.schema import Config
from transduce.models.build import build_model
from transduce.models.transformer.mixer_rules import DECODER_MIXERS, ENCODER_MIXERS
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.text.special_ids import PAD_ID

VOCAB_SIZE = 23
POSITIONS = ["sinusoidal", "learned", "relative", "t5", "alibi", "rotary", "none"]
seeds = st.integers(0, 2**31 - 1)


@st.composite
def model_configs(draw: st.DrawFn, /, **fixed: Any) -> TransformerConfig:
    """Draw settings of small models; heads need not divide the width."""
    drawn: dict[str, Any] = {
        "vocab_size": VOCAB_SIZE,
        "n_encoder_layers": draw(st.integers(1, 3)),
        "n_decoder_layers": draw(st.integers(1, 3)),
        "d_model": 2 * draw(st.integers(1, 8)),
        "d_ff": draw(st.integers(1, 24)),
        "h": draw(st.integers(1, 4)),
        "d_k": draw(st.integers(1, 6)),
        "d_v": draw(st.integers(1, 6)),
        "attention_bias": draw(st.booleans()),
        "tied_output": draw(st.booleans()),
        "norm": draw(st.sampled_from(["post", "pre"])),
        "positions": draw(st.sampled_from(["sinusoidal", "learned"])),
        "max_positions": 32,
    }
    return TransformerConfig(**(drawn | fixed))


@st.composite
def varied_configs(draw: st.DrawFn, /, **fixed: Any) -> TransformerConfig:
    """Draw settings that the paper does not have: other positions, norms, scores, experts."""
    experts = fixed.get("experts", draw(st.integers(0, 4)))
    ungated = ["relu", "swish", "relu2"]
    h = fixed.get("h", draw(st.sampled_from([1, 2, 4])))
    varied = {
        "h": h,
        "kv_heads": draw(st.sampled_from([n for n in (1, 2, 4) if h % n == 0])),
        "activation": draw(st.sampled_from(ungated if experts else [*ungated, "swiglu", "geglu"])),
        "norm_kind": draw(st.sampled_from(["layer", "rms"])),
        "qk_norm": draw(st.booleans()),
        "positions": draw(st.sampled_from(POSITIONS)),
        "max_distance": draw(st.integers(1, 9)),
        "d_k": 2 * draw(st.integers(1, 3)),
        "attention_score": draw(st.sampled_from(["unscaled", "additive", "scaled"])),
        "experts": experts,
        "experts_per_token": draw(st.integers(1, max(1, experts))),
        "experts_every": draw(st.integers(1, 2)),
        "expert_capacity": draw(st.sampled_from([0.5, 1.0, 2.0])),
    }
    return draw(model_configs(**(varied | fixed)))


@st.composite
def mixed_configs(draw: st.DrawFn, /, **fixed: Any) -> TransformerConfig:
    """Draw settings whose layers have any mixers, in any order, and heads that share keys."""
    encoder = st.sampled_from(ENCODER_MIXERS)
    decoder = st.sampled_from(DECODER_MIXERS)
    h = draw(st.sampled_from([1, 2, 4]))
    mixed: dict[str, Any] = {
        "n_encoder_layers": 2,
        "n_decoder_layers": 2,
        "encoder_mixers": tuple(draw(st.lists(encoder, min_size=1, max_size=2))),
        "decoder_mixers": tuple(draw(st.lists(decoder, min_size=1, max_size=2))),
        "cross_mixer": draw(st.sampled_from(["attention", "linformer"])),
        "window": draw(st.integers(2, 6)),
        "global_tokens": draw(st.integers(1, 4)),
        "low_rank": draw(st.integers(1, 6)),
        "random_features": draw(st.integers(4, 20)),
        "d_state": 2 * draw(st.integers(1, 4)),
        "h": h,
        "kv_heads": draw(st.sampled_from([n for n in (1, 2, 4) if h % n == 0])),
        "d_k": 2 * draw(st.integers(1, 3)),
        "qk_norm": draw(st.booleans()),
    }
    used = {*mixed["encoder_mixers"], *mixed["decoder_mixers"]}
    by_distance = [] if used & {"performer", "linformer"} else ["relative", "t5", "alibi"]
    positions = st.sampled_from(["sinusoidal", "learned", "rotary", *by_distance])
    return draw(model_configs(**(mixed | {"positions": draw(positions)} | fixed)))


@st.composite
def models(draw: st.DrawFn, /, **fixed: Any) -> Transformer:
    """Build such a model without dropout, in float64, so that only a real difference shows."""
    config = draw(model_configs(**fixed))
    return transformer(config, seed=draw(seeds)).double().eval()


def transformer(config: TransformerConfig, *, seed: int = 0) -> Transformer:
    """Build a model of the default kind."""
    model = build_model(config, seed=seed)
    assert isinstance(model, Transformer)
    return model


def transformer_config(config: Config) -> TransformerConfig:
    """Return the model section, which must be that of a Transformer."""
    assert isinstance(config.model, TransformerConfig)
    return config.model


@st.composite
def padded_ids(draw: st.DrawFn, *, sentences: int | None = None, max_length: int = 9) -> Tensor:
    """Draw sentences of random lengths ≥ 1, padded on the right: [B, longest]."""
    count = draw(st.integers(1, 4)) if sentences is None else sentences
    lengths = [draw(st.integers(1, max_length)) for _ in range(count)]
    return random_ids(lengths, seed=draw(seeds))


def random_ids(lengths: list[int], *, seed: int) -> Tensor:
    """Draw ordinary tokens for sentences of these lengths, padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, VOCAB_SIZE, (len(lengths), max(lengths)), generator=generator)
    real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return torch.where(real, ids, PAD_ID)


def lengths_of(ids: Tensor) -> list[int]:
    """Count the real tokens of each sentence."""
    counts: list[int] = (ids != PAD_ID).sum(dim=1).tolist()
    return counts
