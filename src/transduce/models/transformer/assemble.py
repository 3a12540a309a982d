"""A Transformer from its settings: which attention, norm and network each of its layers has."""

from functools import partial

from torch import nn

from transduce.models.transformer.model import Parts, Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn.add_norm import PostNorm, PreNorm, make_norm
from transduce.nn.embedding import Embedding, SourceEmbedding
from transduce.nn.feed_forward import ACTIVATIONS, make_feed_forward
from transduce.nn.mixers.attention import MultiHeadAttention
from transduce.nn.mixers.positions import (
    BucketedScores,
    DistancePenalty,
    LearnedPositions,
    NoPositions,
    RelativeKeys,
    RelativePositions,
    Rotation,
    SinusoidalPositions,
)
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
        Embedding(c.vocab_size, c.d_model, bias=c.output_bias),
        added.get(c.positions, NoPositions)(c.max_positions, c.d_model),
        Parts(
            encoder_attention=partial(_self_attention, c, causal=False),
            decoder_attention=partial(_self_attention, c, causal=True),
            cross_attention=partial(_attention, c),
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
        src_embedding=SourceEmbedding(c.src_vocab_size, c.d_model) if c.src_vocab_size else None,
    )


def _attention(
    c: TransformerConfig,
    *,
    term: RelativePositions | None = None,
    rotation: Rotation | None = None,
) -> MultiHeadAttention:
    return MultiHeadAttention(
        c.d_model,
        c.h,
        d_k=c.d_k,
        d_v=c.d_v,
        kv_heads=c.kv_heads,
        bias=c.attention_bias,
        p_drop=c.p_drop_attention,
        score=c.attention_score,
        term=term,
        rotation=rotation,
        qk_norm=c.qk_norm,
    )


def _self_attention(c: TransformerConfig, *, causal: bool) -> MultiHeadAttention:
    """Build the attention that knows distances, if positions are seen there."""
    match c.positions:
        case "relative":
            return _attention(c, term=RelativeKeys(c.d_k, c.max_distance))
        case "t5":
            return _attention(c, term=BucketedScores(c.h, c.max_distance, causal=causal))
        case "alibi":
            return _attention(c, term=DistancePenalty(c.h, c.max_positions - 1))
        case "rotary":
            return _attention(c, rotation=Rotation(c.d_k, c.max_positions))
        case _:
            return _attention(c)


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
