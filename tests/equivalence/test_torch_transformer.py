"""Our weights in `torch.nn.Transformer`, with its own masks, compute what our model computes."""

from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.drawing import VOCAB_SIZE, padded_ids, seeds
from transduce import build_model
from transduce.config.schema import ModelConfig
from transduce.models.transformer import DecoderLayer, EncoderLayer, Transformer
from transduce.nn.attention import MultiHeadAttention
from transduce.nn.feed_forward import FeedForward
from transduce.nn.sublayer import NORM_EPSILON, AddNorm
from transduce.text.special_ids import PAD_ID

Pairs = list[tuple[Tensor, Tensor]]
"""A tensor of torch's model and the one of ours that should equal it."""


@st.composite
def square_configs(draw: st.DrawFn, norm: str) -> ModelConfig:
    """Shapes that torch's model can take: heads that divide the width."""
    h, width = draw(st.integers(1, 4)), 2 * draw(st.integers(1, 8))
    return ModelConfig.model_validate(
        {
            "vocab_size": VOCAB_SIZE,
            "n_layers": draw(st.integers(1, 4)),
            "d_model": h * width,
            "d_ff": draw(st.integers(1, 64)),
            "h": h,
            "attention_bias": draw(st.booleans()),
            "norm": norm,
            "p_drop": 0.0,
        }
    )


def torch_transformer(config: ModelConfig) -> nn.Transformer:
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
            config.n_layers,
            norm=last_norm(),
            enable_nested_tensor=False,
        ),
        custom_decoder=nn.TransformerDecoder(
            nn.TransformerDecoderLayer(**shape), config.n_layers, norm=last_norm()
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
    pairs = attention_pairs(theirs.self_attn, ours.self_attention)
    pairs += feed_forward_pairs(theirs, ours.feed_forward)
    if isinstance(ours, DecoderLayer):
        pairs += attention_pairs(theirs.multihead_attn, ours.cross_attention)
    add_norms = [module for module in ours.children() if isinstance(module, AddNorm)]
    for index, add_norm in enumerate(add_norms, start=1):
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
    """Move weights that start alike (norms at 1, biases at 0), so that a swap would show."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))


def logits_of_theirs(theirs: nn.Transformer, ours: Transformer, src: Tensor, tgt: Tensor) -> Tensor:
    """Run torch's stacks and masks between our embedding and our output projection."""

    def embed(ids: Tensor) -> Tensor:
        embedded: Tensor = ours.embedding(ids) + ours.positions(ids.size(1))
        return embedded

    states = theirs(
        embed(src),
        embed(tgt),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(tgt.size(1), dtype=torch.bool),
        src_key_padding_mask=src == PAD_ID,
        tgt_key_padding_mask=tgt == PAD_ID,
        memory_key_padding_mask=src == PAD_ID,
        tgt_is_causal=True,
    )
    return ours.embedding.logits(states)


def check_same_outputs_and_gradients(
    config: ModelConfig, src: Tensor, tgt: Tensor, seed: int
) -> None:
    ours, theirs = build_model(config, seed=seed), torch_transformer(config)
    spread_out(ours, seed)
    with torch.no_grad():
        for bias in (p for name, p in theirs.named_parameters() if name.endswith("bias")):
            bias.zero_()
        for their_weight, our_weight in all_pairs(theirs, ours):
            their_weight.copy_(our_weight)

    real = tgt != PAD_ID
    our_logits, their_logits = ours(src, tgt)[real], logits_of_theirs(theirs, ours, src, tgt)[real]
    torch.testing.assert_close(our_logits, their_logits, rtol=0, atol=1e-5)

    upstream = torch.randn(our_logits.shape, generator=torch.Generator().manual_seed(seed))
    upstream /= upstream.norm()
    torch.autograd.backward((our_logits * upstream).sum())
    our_embedding_gradient = ours.embedding.weight.grad
    ours.embedding.weight.grad = None
    torch.autograd.backward((their_logits * upstream).sum())
    torch.testing.assert_close(
        our_embedding_gradient, ours.embedding.weight.grad, rtol=0, atol=1e-5
    )
    with torch.no_grad():
        for parameter in (*ours.parameters(), *theirs.parameters()):
            assert parameter.grad is not None
            parameter.copy_(parameter.grad)  # so that the pairing of weights pairs gradients
    for their_gradient, our_gradient in all_pairs(theirs, ours):
        torch.testing.assert_close(our_gradient, their_gradient, rtol=0, atol=1e-5)


@given(
    config=square_configs("post"),
    src=padded_ids(sentences=3),
    tgt=padded_ids(sentences=3),
    seed=seeds,
)
def test_post_norm_is_torchs(config: ModelConfig, src: Tensor, tgt: Tensor, seed: int) -> None:
    check_same_outputs_and_gradients(config, src, tgt, seed)


@given(
    config=square_configs("pre"),
    src=padded_ids(sentences=3),
    tgt=padded_ids(sentences=3),
    seed=seeds,
)
def test_pre_norm_is_torchs(config: ModelConfig, src: Tensor, tgt: Tensor, seed: int) -> None:
    check_same_outputs_and_gradients(config, src, tgt, seed)
