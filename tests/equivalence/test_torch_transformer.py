"""Our weights in `torch.nn.Transformer`, with its own masks, compute what our model computes."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.drawing import VOCAB_SIZE, padded_ids, seeds, transformer
from transduce.models.transformer.layers import DecoderLayer, EncoderLayer
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn.add_norm import NORM_EPSILON, AddNorm
from transduce.nn.feed_forward import FeedForward
from transduce.nn.mixers.attention import MultiHeadAttention
from transduce.nn.mixers.positions import sinusoids
from transduce.text.special_ids import PAD_ID

Pairs = list[tuple[Tensor, Tensor]]
"""Tensors of torch's model, each with the one of ours that it must equal."""


@st.composite
def square_configs(draw: st.DrawFn, norm: str) -> TransformerConfig:
    """Draw shapes that torch's model can take: heads that divide the width.

    At least 8 wide: a layer norm over fewer numbers may divide by almost 0, and a comparison in
    float32 would then be one of rounding errors.
    """
    h, width = draw(st.integers(1, 4)), 8 * draw(st.integers(1, 3))
    return TransformerConfig.model_validate(
        {
            "vocab_size": VOCAB_SIZE,
            "src_vocab_size": draw(st.sampled_from([None, VOCAB_SIZE + 9])),
            "n_encoder_layers": draw(st.integers(1, 3)),
            "n_decoder_layers": draw(st.integers(1, 3)),
            "d_model": h * width,
            "d_ff": draw(st.integers(1, 64)),
            "h": h,
            "attention_bias": draw(st.booleans()),
            "norm": norm,
            "p_drop": 0.0,
        }
    )


def torch_transformer(config: TransformerConfig) -> nn.Transformer:
    shape: dict[str, Any] = {
        "d_model": config.d_model,
        "nhead": config.h,
        "dim_feedforward": config.d_ff,
        "dropout": 0.0,
        "layer_norm_eps": NORM_EPSILON,
        "batch_first": True,
        "norm_first": config.norm == "pre",
    }

    def last_norm() -> nn.LayerNorm | None:
        return nn.LayerNorm(config.d_model, eps=NORM_EPSILON) if config.norm == "pre" else None

    return nn.Transformer(
        config.d_model,
        config.h,
        batch_first=True,
        custom_encoder=nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**shape),
            config.n_encoder_layers,
            norm=last_norm(),
            enable_nested_tensor=False,
        ),
        custom_decoder=nn.TransformerDecoder(
            nn.TransformerDecoderLayer(**shape), config.n_decoder_layers, norm=last_norm()
        ),
    )


def attention_pairs(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> Pairs:
    projections = (ours.w_q, ours.w_k, ours.w_v)
    pairs: Pairs = [(theirs.in_proj_weight, torch.cat([w.weight for w in projections]))]
    pairs.append((theirs.out_proj.weight, ours.w_o.weight))
    if ours.w_o.bias is not None:
        pairs.append((theirs.in_proj_bias, torch.cat([w.bias for w in projections])))
        pairs.append((theirs.out_proj.bias, ours.w_o.bias))
    return pairs


def feed_forward_pairs(theirs: Any, ours: FeedForward) -> Pairs:
    return [
        (theirs.linear1.weight, ours.w_1.weight),
        (theirs.linear1.bias, ours.w_1.bias),
        (theirs.linear2.weight, ours.w_2.weight),
        (theirs.linear2.bias, ours.w_2.bias),
    ]


def norm_pairs(theirs: nn.LayerNorm, ours: nn.LayerNorm) -> Pairs:
    return [(theirs.weight, ours.weight), (theirs.bias, ours.bias)]


def layer_pairs(theirs: Any, ours: EncoderLayer | DecoderLayer) -> Pairs:
    assert isinstance(ours.self_attention, MultiHeadAttention)
    pairs = attention_pairs(theirs.self_attn, ours.self_attention)
    assert isinstance(ours.feed_forward, FeedForward)
    pairs += feed_forward_pairs(theirs, ours.feed_forward)
    if isinstance(ours, DecoderLayer):
        pairs += attention_pairs(theirs.multihead_attn, ours.cross_attention)
    add_norms = [module for module in ours.children() if isinstance(module, AddNorm)]
    for index, add_norm in enumerate(add_norms, start=1):
        assert isinstance(add_norm.norm, nn.LayerNorm)
        pairs += norm_pairs(getattr(theirs, f"norm{index}"), add_norm.norm)
    return pairs


def all_pairs(theirs: nn.Transformer, ours: Transformer) -> Pairs:
    pairs: Pairs = []
    their_layers = [*theirs.encoder.layers, *theirs.decoder.layers]
    our_layers: list[EncoderLayer | DecoderLayer] = [*ours.encoder, *ours.decoder]
    for their_layer, our_layer in zip(their_layers, our_layers, strict=True):
        pairs += layer_pairs(their_layer, our_layer)
    for stack, norm in (
        (theirs.encoder, ours.encoder_norm),
        (theirs.decoder, ours.decoder_norm),
    ):
        if isinstance(norm, nn.LayerNorm):
            pairs += norm_pairs(stack.norm, norm)
    return pairs


def spread_out(model: nn.Module, seed: int) -> None:
    """Change weights that start equal (norms at 1, biases at 0), so that a swap would show."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))


def logits_of_theirs(theirs: nn.Transformer, ours: Transformer, src: Tensor, tgt: Tensor) -> Tensor:
    """Run torch's stacks and masks, with §3.4 around them written in plain torch."""
    weight = ours.embedding.weight
    of_source = weight if ours.src_embedding is None else ours.src_embedding.weight

    def embed(ids: Tensor, weight: Tensor) -> Tensor:
        embedded: Tensor = F.embedding(ids, weight) * math.sqrt(weight.size(1))
        return embedded + sinusoids(ids.size(1), weight.size(1)).to(weight.dtype)

    states = theirs(
        embed(src, of_source),
        embed(tgt, weight),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(tgt.size(1), dtype=torch.bool),
        src_key_padding_mask=src == PAD_ID,
        tgt_key_padding_mask=tgt == PAD_ID,
        memory_key_padding_mask=src == PAD_ID,
        tgt_is_causal=True,
    )
    return F.linear(states, weight)


def twins(config: TransformerConfig, seed: int) -> tuple[Transformer, nn.Transformer]:
    ours, theirs = transformer(config, seed=seed), torch_transformer(config)
    spread_out(ours, seed)
    with torch.no_grad():
        for bias in (p for name, p in theirs.named_parameters() if name.endswith("bias")):
            bias.zero_()
        for their_weight, our_weight in all_pairs(theirs, ours):
            their_weight.copy_(our_weight)
    return ours, theirs


def check_outputs(config: TransformerConfig, src: Tensor, tgt: Tensor, seed: int) -> None:
    ours, theirs = twins(config, seed)
    real = tgt != PAD_ID
    our_logits, their_logits = ours(src, tgt), logits_of_theirs(theirs, ours, src, tgt)
    torch.testing.assert_close(our_logits[real], their_logits[real], rtol=0, atol=1e-5)


def check_gradients(config: TransformerConfig, src: Tensor, tgt: Tensor, seed: int) -> None:
    """Compare in float64, where the outputs must agree to far more digits too."""
    ours, theirs = (model.double() for model in twins(config, seed))
    assert isinstance(ours, Transformer)
    assert isinstance(theirs, nn.Transformer)
    real = tgt != PAD_ID
    our_logits = ours(src, tgt)[real]
    upstream = torch.randn(our_logits.shape, generator=torch.Generator().manual_seed(seed)).double()
    torch.autograd.backward(our_logits, upstream)
    embeddings = [one for one in (ours.embedding, ours.src_embedding) if one is not None]
    of_embeddings = [one.weight.grad for one in embeddings]
    for one in embeddings:
        one.weight.grad = None
    their_logits = logits_of_theirs(theirs, ours, src, tgt)[real]
    torch.testing.assert_close(our_logits, their_logits, rtol=1e-9, atol=1e-10)
    torch.autograd.backward(their_logits, upstream)
    pairs = [(one.weight.grad, ours) for one, ours in zip(embeddings, of_embeddings, strict=True)]
    with torch.no_grad():
        for parameter in (*ours.parameters(), *theirs.parameters()):
            assert parameter.grad is not None
            parameter.copy_(parameter.grad)  # all_pairs then pairs gradients
    for their_gradient, our_gradient in [*pairs, *all_pairs(theirs, ours)]:
        torch.testing.assert_close(our_gradient, their_gradient, rtol=1e-9, atol=1e-10)


sentences = padded_ids(sentences=3)


@given(config=square_configs("post"), src=sentences, tgt=sentences, seed=seeds)
def test_post_norm_is_torchs(
    config: TransformerConfig, src: Tensor, tgt: Tensor, seed: int
) -> None:
    check_outputs(config, src, tgt, seed)


@given(config=square_configs("pre"), src=sentences, tgt=sentences, seed=seeds)
def test_pre_norm_is_torchs(config: TransformerConfig, src: Tensor, tgt: Tensor, seed: int) -> None:
    check_outputs(config, src, tgt, seed)


@given(config=square_configs("post"), src=sentences, tgt=sentences, seed=seeds)
def test_post_norm_gradients_are_torchs(
    config: TransformerConfig, src: Tensor, tgt: Tensor, seed: int
) -> None:
    check_gradients(config, src, tgt, seed)


@given(config=square_configs("pre"), src=sentences, tgt=sentences, seed=seeds)
def test_pre_norm_gradients_are_torchs(
    config: TransformerConfig, src: Tensor, tgt: Tensor, seed: int
) -> None:
    check_gradients(config, src, tgt, seed)
