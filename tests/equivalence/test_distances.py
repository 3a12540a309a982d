"""A Transformer whose self-attention depends on distances needs no code of its own."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import VOCAB_SIZE, lengths_of, padded_ids, seeds
from tests.models.test_transformer import layout_of
from tests.nn.distances import MAX_POSITIONS, Kind, kinds
from transduce.models.transformer.layers import Parts
from transduce.models.transformer.model import Transformer
from transduce.nn.add_norm import PreNorm
from transduce.nn.embedding import Embedding
from transduce.nn.feed_forward import FeedForward
from transduce.nn.initialise import initialise
from transduce.nn.mixers.attention import MultiHeadAttention
from transduce.nn.mixers.positions import SinusoidalPositions
from transduce.text.special_ids import PAD_ID

D_MODEL, H, D_K, D_V = 8, 2, 4, 3
MAX_STEPS = 9


def transformer_with(encoder: Kind, decoder: Kind, *, seed: int) -> Transformer:
    """Assemble a small model from attentions of these kinds."""
    parts = Parts(
        encoder_mixer=lambda _: encoder.make_attention(D_MODEL, H, d_k=D_K, d_v=D_V),
        decoder_mixer=lambda _: decoder.make_attention(D_MODEL, H, d_k=D_K, d_v=D_V),
        cross_attention=lambda: MultiHeadAttention(D_MODEL, H, d_k=D_K, d_v=D_V),
        feed_forward=lambda: FeedForward(D_MODEL, 5),
        add_norm=lambda: PreNorm(D_MODEL, p_drop=0.0),
    )
    model = Transformer(
        Embedding(VOCAB_SIZE, D_MODEL),
        SinusoidalPositions(MAX_POSITIONS, D_MODEL),
        parts,
        n_encoder_layers=2,
        n_decoder_layers=3,
        last_norm=lambda: torch.nn.LayerNorm(D_MODEL),
        p_drop=0.0,
        pad_id=PAD_ID,
    )
    torch.manual_seed(seed)
    initialise(model)
    return model.double().eval()


@st.composite
def models(draw: st.DrawFn) -> Transformer:
    return transformer_with(draw(kinds()), draw(kinds()), seed=draw(seeds))


@given(model=models(), src=padded_ids(), tgt=padded_ids(sentences=1), k=st.integers(1, 3))
def test_cached_steps_equal_uncached_decoding(
    model: Transformer, src: Tensor, tgt: Tensor, k: int
) -> None:
    tgt = tgt.expand(src.size(0), -1)
    whole = model(src, tgt)
    state = model.start(model.encode(src), hypotheses=k, max_steps=MAX_STEPS)
    for step in range(tgt.size(1)):
        last_ids = tgt[:, step, None].expand(-1, k)
        logits = model.step(last_ids, state, position=torch.tensor([step]), reach=step + 1)
        assert_close(logits, whole[:, step, None].expand_as(logits), rtol=0, atol=1e-11)
        state.select(torch.full((src.size(0), k), step % k))


@given(model=models(), src=padded_ids(sentences=3), tgt=padded_ids(sentences=3))
def test_a_sentence_scores_the_same_alone_padded_and_packed(
    model: Transformer, src: Tensor, tgt: Tensor
) -> None:
    layout = layout_of(lengths_of(src), lengths_of(tgt), rest=0)
    src_row, tgt_row = (ids[ids != PAD_ID][None] for ids in (src, tgt))
    packed = model.decode_states(model.encode(src_row, layout), tgt_row, layout)
    padded = model.decode_states(model.encode(src), tgt)
    start = 0
    for row, (n, m) in enumerate(zip(lengths_of(src), lengths_of(tgt), strict=True)):
        alone = model.decode_states(model.encode(src[row : row + 1, :n]), tgt[row : row + 1, :m])
        assert_close(padded[row, :m], alone[0], rtol=0, atol=1e-11)
        assert_close(packed[0, start : start + m], alone[0], rtol=0, atol=1e-11)
        start += m


@given(model=models(), src=padded_ids(sentences=2), tgt=padded_ids(sentences=2))
def test_attention_maps_are_of_the_weights_that_are_used(
    model: Transformer, src: Tensor, tgt: Tensor
) -> None:
    maps = model.attention_maps(src, tgt)
    assert maps.decoder is not None
    layer = model.decoder[0]
    states = layer.add_norm_1.norm(model._embed(tgt, model.positions(tgt.size(1))))
    _, _, v = layer.self_attention.project(states)
    heads = (maps.decoder[0] @ v).transpose(1, 2).flatten(2)
    expected = layer.self_attention(states, states, causal=True)
    assert_close(layer.self_attention.w_o(heads), expected, rtol=0, atol=1e-11)
