"""Which formats can express a model: the model itself says so."""

from typing import Literal, TypeGuard

import torch

from transduce.config.schema import ModelConfig
from transduce.models.build import assemble
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig

Format = Literal["ctranslate2", "huggingface"]
ENGINES: dict[Format, str] = {"ctranslate2": "CTranslate2", "huggingface": "Marian"}
POSITIONS: dict[Format, tuple[str, ...]] = {
    "ctranslate2": ("sinusoidal", "learned", "rotary", "none"),
    "huggingface": ("sinusoidal",),
}
ACTIVATIONS: dict[Format, tuple[str, ...]] = {
    "ctranslate2": ("relu", "swish", "swiglu", "geglu"),
    "huggingface": ("relu", "swish"),
}


def is_exportable(config: ModelConfig, to: Format) -> TypeGuard[TransformerConfig]:
    """Return whether the kind of model can be exported to a format.

    Both formats hold Transformers alone. A kind derived from the Transformer is asked too: it may
    compute something that they lack.
    """
    if not isinstance(config, TransformerConfig):
        return False
    with torch.device("meta"):  # it is asked before its weights are loaded
        model = assemble(config)
    return isinstance(model, Transformer) and to in model.abilities.exports


def foreign_setting(config: ModelConfig, to: Format) -> str | None:
    """Return which setting of a Transformer a format cannot express, or None."""
    if not isinstance(config, TransformerConfig):
        return None
    engine = ENGINES[to]
    if config.experts:
        return f"model.experts={config.experts}, but {engine} has one feed-forward network a layer"
    if config.attention_score != "scaled":
        score = config.attention_score
        return f"model.attention_score={score}, but {engine} has only scaled dot products"
    mixers = {*config.encoder_mixers, *config.decoder_mixers, config.cross_mixer} - {"attention"}
    if mixers:
        return f"a mixer is {min(mixers)}, but {engine} has only attention to all positions"
    for setting, value, known in (
        ("positions", config.positions, POSITIONS[to]),
        ("activation", config.activation, ACTIVATIONS[to]),
    ):
        if value not in known:
            named = " or ".join(known)
            return f"model.{setting}={value}, but the export to {engine} has only {named}"
    if config.qk_norm:
        # CTranslate2 has a setting of that name, and computes something else.
        return f"model.qk_norm=true, but {engine} has no such norm in attention to the source"
    if to == "huggingface" and config.norm_kind != "layer":
        return f"model.norm_kind={config.norm_kind}, but {engine} has only layer norms"
    if config.d_k * config.h != config.d_model or config.d_v != config.d_k:
        return (
            f"model.d_k={config.d_k} and model.d_v={config.d_v}, but {engine} splits "
            f"d_model={config.d_model} evenly among its {config.h} heads, with d_k = d_v"
        )
    return None
