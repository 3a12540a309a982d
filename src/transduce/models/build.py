"""From settings to a model."""

import torch
import torch.nn.functional as F
from torch import nn

from transduce.config.schema import ModelConfig
from transduce.models.transformer import Parts, Transformer
from transduce.nn.attention import MultiHeadAttention
from transduce.nn.embedding import Embedding
from transduce.nn.feed_forward import FeedForward
from transduce.nn.init import initialise
from transduce.nn.positions import LearnedPositions, SinusoidalPositions
from transduce.nn.sublayer import PostNorm, PreNorm
from transduce.text.special_ids import PAD_ID

ACTIVATIONS = {"relu": F.relu, "swish": F.silu}


def build_model(config: ModelConfig, *, seed: int = 0) -> Transformer:
    """Build the model on torch's current default device; equal seeds give equal weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = assemble(config)
        initialise(model)
    return model


def assemble(c: ModelConfig) -> Transformer:
    """Put a model together whose weights are still to be drawn or loaded."""
    add_norm = PreNorm if c.norm == "pre" else PostNorm
    positions = LearnedPositions if c.positions == "learned" else SinusoidalPositions
    parts = Parts(
        attention=lambda: MultiHeadAttention(
            c.d_model, c.h, d_k=c.d_k, d_v=c.d_v, bias=c.attention_bias, p_drop=c.p_drop_attention
        ),
        feed_forward=lambda: FeedForward(
            c.d_model, c.d_ff, activation=ACTIVATIONS[c.activation], p_drop=c.p_drop_ff
        ),
        add_norm=lambda: add_norm(c.d_model, epsilon=c.norm_epsilon, p_drop=c.p_drop),
    )
    return Transformer(
        Embedding(c.vocab_size, c.d_model, bias=c.output_bias),
        positions(c.max_positions, c.d_model),
        parts,
        n_layers=c.n_layers,
        # After post-norm layers nothing is left to normalise; pre-norm leaves a bare sum.
        last_norm=nn.Identity
        if c.norm == "post"
        else lambda: nn.LayerNorm(c.d_model, eps=c.norm_epsilon),
        p_drop=c.p_drop,
        pad_id=PAD_ID,
    )
