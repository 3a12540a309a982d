"""A Transformer from its settings: which attention, norm and network each of its layers has."""

from functools import partial
from typing import Unpack

from torch import nn

from transduce.models.transformer.layers import Mixer, Parts
from transduce.models.transformer.mixer_rules import mixer_of_layer
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn.add_norm import PostNorm, PreNorm, make_norm
from transduce.nn.embedding import Embedding, SourceEmbedding
from transduce.nn.feed_forward import ACTIVATIONS, make_feed_forward
from transduce.nn.mixers.attention import AttentionOptions, MultiHeadAttention
from transduce.nn.mixers.global_attention import GlobalAttention
from transduce.nn.mixers.local_attention import WindowAttention
from transduce.nn.mixers.low_rank import LowRankAttention
from transduce.nn.mixers.positions import (
    BucketedScores,
    DistancePenalty,
    LearnedPositions,
    NoPositions,
    RelativeKeys,
    Rotation,
    SinusoidalPositions,
)
from transduce.nn.mixers.random_features import RandomFeatureAttention
from transduce.nn.mixers.state_spaces.mamba import Mamba
from transduce.nn.mixers.state_spaces.s4 import S4
from transduce.nn.mixture import MixtureOfExperts
from transduce.text.special_ids import PAD_ID


def assemble(c: TransformerConfig) -> Transformer:
    """Build a Transformer with these settings; its weights are not initialised yet."""
    add_norm = PreNorm if c.norm == "pre" else PostNorm
    added = {"sinusoidal": SinusoidalPositions, "learned": LearnedPositions}

    def last_norm() -> nn.Module:
        # A post-norm layer ends with a norm; a pre-norm layer ends with a residual sum.
        if c.norm == "post":
            return nn.Identity()
        return make_norm(c.norm_kind, c.d_model, epsilon=c.norm_epsilon)

    return Transformer(
        Embedding(c.vocab_size, c.d_model, tied=c.tied_output, bias=c.output_bias),
        added.get(c.positions, NoPositions)(c.max_positions, c.d_model),
        Parts(
            encoder_mixer=partial(_mixer, c, causal=False),
            decoder_mixer=partial(_mixer, c, causal=True),
            cross_attention=partial(_cross_attention, c),
            feed_forward=partial(
                make_feed_forward, c.d_model, c.d_ff, activation=c.activation, p_drop=c.p_drop_ff
            ),
            add_norm=lambda: add_norm(
                c.d_model, epsilon=c.norm_epsilon, p_drop=c.p_drop, norm=c.norm_kind
            ),
            mixture=partial(_mixture, c) if c.experts else None,
            mixture_every=c.experts_every,
        ),
        n_encoder_layers=c.n_encoder_layers,
        n_decoder_layers=c.n_decoder_layers,
        last_norm=last_norm,
        p_drop=c.p_drop,
        pad_id=PAD_ID,
        balance_weight=c.balance_weight,
        guided_alignment=c.guided_alignment,
        alignment_layer=c.alignment_layer - 1,
        src_embedding=SourceEmbedding(c.src_vocab_size, c.d_model) if c.src_vocab_size else None,
    )


def _mixer(c: TransformerConfig, layer: int, *, causal: bool) -> Mixer:
    """Build what mixes positions in a layer, counted from 0."""
    names = c.decoder_mixers if causal else c.encoder_mixers
    sizes = {"d_k": c.d_k, "d_v": c.d_v}
    match mixer_of_layer(names, layer):
        case "window":
            return WindowAttention(c.d_model, c.h, **sizes, **_with_window(c, causal=causal))
        case "longformer":
            options, first = _with_window(c, causal=causal), c.global_tokens
            return GlobalAttention(c.d_model, c.h, **sizes, global_tokens=first, **options)
        case "linformer":
            return _low_rank(c, **_with_positions(c, causal=causal))
        case "performer":
            return _random_features(c, seed=2 * layer + causal)
        case "s4":
            return S4(c.d_model, d_state=c.d_state, bidirectional=not causal)
        case "mamba":
            return Mamba(c.d_model, d_state=c.d_state, bidirectional=not causal)
        case _:
            return MultiHeadAttention(c.d_model, c.h, **sizes, **_with_positions(c, causal=causal))


def _cross_attention(c: TransformerConfig) -> MultiHeadAttention:
    if c.cross_mixer == "linformer":
        return _low_rank(c, **_options(c))
    return MultiHeadAttention(c.d_model, c.h, d_k=c.d_k, d_v=c.d_v, **_options(c))


def _low_rank(c: TransformerConfig, **options: Unpack[AttentionOptions]) -> LowRankAttention:
    return LowRankAttention(
        c.d_model,
        c.h,
        d_k=c.d_k,
        d_v=c.d_v,
        rank=c.low_rank,
        max_positions=c.max_positions,
        **options,
    )


def _random_features(c: TransformerConfig, *, seed: int) -> RandomFeatureAttention:
    return RandomFeatureAttention(
        c.d_model,
        c.h,
        d_k=c.d_k,
        d_v=c.d_v,
        features=c.random_features,
        seed=seed,
        kv_heads=c.kv_heads,
        bias=c.attention_bias,
        score=c.attention_score,
        rotation=_rotation(c),
        qk_norm=c.qk_norm,
    )


def _options(c: TransformerConfig) -> AttentionOptions:
    return {
        "kv_heads": c.kv_heads,
        "bias": c.attention_bias,
        "p_drop": c.p_drop_attention,
        "score": c.attention_score,
        "qk_norm": c.qk_norm,
    }


def _with_positions(c: TransformerConfig, *, causal: bool) -> AttentionOptions:
    """Return the options of a self-attention, which knows distances if positions are seen there."""
    options = _options(c)
    options["rotation"] = _rotation(c)
    match c.positions:
        case "relative":
            options["term"] = RelativeKeys(c.d_k, c.max_distance)
        case "t5":
            options["term"] = BucketedScores(c.h, c.max_distance, causal=causal)
        case "alibi":
            options["term"] = DistancePenalty(c.h, c.max_positions - 1)
        case _:
            pass
    return options


def _with_window(c: TransformerConfig, *, causal: bool) -> AttentionOptions:
    """Add the window: §4's r counts the keys on both sides of a position, or those up to it."""
    window = c.window if causal else c.window // 2 + 1
    return {**_with_positions(c, causal=causal), "window": window}


def _rotation(c: TransformerConfig) -> Rotation | None:
    return Rotation(c.d_k, c.max_positions) if c.positions == "rotary" else None


def _mixture(c: TransformerConfig) -> MixtureOfExperts:
    return MixtureOfExperts(
        c.d_model,
        c.d_ff,
        experts=c.experts,
        per_token=c.experts_per_token,
        capacity=c.expert_capacity,
        activation=ACTIVATIONS[c.activation],
        p_drop=c.p_drop_ff,
    )
