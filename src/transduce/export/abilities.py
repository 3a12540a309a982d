"""Which formats can express a model: the model itself says so."""

from typing import Literal, TypeGuard

import torch

from transduce.config.schema import ModelConfig
from transduce.models.build import assemble
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig

Format = Literal["ctranslate2", "huggingface"]


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


def foreign_setting(config: ModelConfig, engine: str) -> str | None:
    """Return which setting of a Transformer the engines of both formats do not know, or None."""
    if not isinstance(config, TransformerConfig):
        return None
    if config.experts:
        return f"model.experts={config.experts}, but {engine} has one feed-forward network a layer"
    if config.attention_score != "scaled":
        score = config.attention_score
        return f"model.attention_score={score}, but {engine} has only scaled dot products"
    mixers = {*config.encoder_mixers, *config.decoder_mixers, config.cross_mixer} - {"attention"}
    if mixers:
        return f"a mixer is {min(mixers)}, but {engine} has only attention to all positions"
    if config.positions not in ("sinusoidal", "learned"):
        return (
            f"model.positions={config.positions}, but the export to {engine} has only positions "
            "that are added to the embeddings"
        )
    if config.activation not in ("relu", "swish"):
        return f"model.activation={config.activation}, but the export to {engine} has relu or swish"
    if config.norm_kind != "layer" or config.qk_norm:
        name = "qk_norm=true" if config.qk_norm else f"norm_kind={config.norm_kind}"
        return f"model.{name}, but the export to {engine} has only the paper's layer norms"
    return None
