"""Properties of the whole model, for all sizes."""

from itertools import accumulate

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import VOCAB_SIZE, lengths_of, models, padded_ids, transformer
from transduce.data.packed_layout import PackedLayout
from transduce.models.base import Seq2Seq
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn.mixers.attention import AttentionRecorder, attend_fused
from transduce.text.special_ids import PAD_ID


def test_the_transformer_obeys_the_protocol() -> None:
    model: Seq2Seq = transformer(TransformerConfig(vocab_size=VOCAB_SIZE, n_layers=1))
    memory = model.encode(torch.tensor([[5, 6]]))
    state = model.start(memory, hypotheses=1, max_steps=1)
    logits = model.step(torch.tensor([[2]]), state, position=torch.tensor([0]), reach=1)
    assert logits.shape == (1, 1, VOCAB_SIZE)


@given(
    model=models(), src=padded_ids(sentences=3), tgt=padded_ids(sentences=3), rest=st.integers(0, 3)
)
def test_packed_sentences_score_the_same_as_alone(
    model: Transformer, src: Tensor, tgt: Tensor, rest: int
) -> None:
    src_row, tgt_row = (torch.cat([ids[ids != PAD_ID], ids.new_zeros(rest)]) for ids in (src, tgt))
    layout = layout_of(lengths_of(src), lengths_of(tgt), rest=rest)
    for attend in (attend_fused, AttentionRecorder()):
        memory = model.encode(src_row[None], layout, attend=attend)
        states = model.decode_states(memory, tgt_row[None], layout)
        assert states.isfinite().all()
        start = 0
        for row, (n, m) in enumerate(zip(lengths_of(src), lengths_of(tgt), strict=True)):
            alone = model.decode_states(
                model.encode(src[row : row + 1, :n]), tgt[row : row + 1, :m]
            )
            assert_close(states[:, start : start + m], alone, rtol=0, atol=1e-11)
            start += m


def layout_of(src: list[int], tgt: list[int], *, rest: int) -> PackedLayout:
    """Pack sentences of these lengths into one row, with some padding after them."""

    def bounds(own: list[int], others: list[int]) -> Tensor:
        ends, other_ends = list(accumulate(own)), list(accumulate(others))
        sentences = zip(own, ends, others, other_ends, strict=True)
        tokens = [
            (end - n, end, other - m, other) for n, end, m, other in sentences for _ in range(n)
        ]
        tokens += [(ends[-1], ends[-1], other_ends[-1], other_ends[-1])] * rest
        return torch.tensor(tokens, dtype=torch.int32).t()

    return PackedLayout(bounds(src, tgt), bounds(tgt, src))


@given(model=models(), src=padded_ids(sentences=3), tgt=padded_ids(sentences=3))
def test_a_sentence_of_only_padding_gives_no_nan_and_harms_no_other(
    model: Transformer, src: Tensor, tgt: Tensor
) -> None:
    empty = src.clone()
    empty[1] = PAD_ID
    for attend in (attend_fused, AttentionRecorder()):
        model.zero_grad()
        logits = model.decode(model.encode(empty, attend=attend), tgt, attend=attend)
        torch.autograd.backward(logits.square().mean())
        assert logits.isfinite().all()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
        assert_close(logits[[0, 2]], model(src, tgt)[[0, 2]], rtol=0, atol=1e-11)


@given(model=models(), src=padded_ids(sentences=2), tgt=padded_ids(sentences=2))
def test_fused_and_reference_attention_give_the_same_logits(
    model: Transformer, src: Tensor, tgt: Tensor
) -> None:
    reference = model.decode(
        model.encode(src, attend=AttentionRecorder()), tgt, attend=AttentionRecorder()
    )
    assert_close(model(src, tgt), reference, rtol=0, atol=1e-11)


@pytest.mark.parametrize("setting", ["p_drop", "p_drop_attention", "p_drop_ff"])
def test_each_dropout_setting_reaches_its_place_and_no_other(setting: str) -> None:
    config = {"vocab_size": VOCAB_SIZE, "n_layers": 2, "d_model": 16, "h": 2, "d_ff": 8}
    rates = {"p_drop": 0.0, "p_drop_attention": 0.0, "p_drop_ff": 0.0, setting: 0.5}
    model = transformer(TransformerConfig.model_validate(config | rates)).train()
    layer = model.decoder[0]
    found = (layer.add_norm_2.dropout.p, layer.cross_attention.p_drop, layer.feed_forward.dropout.p)
    assert found == tuple(rates.values())
    model.dropout.p = 0.0  # no dropout on embeddings, to see that of the layers alone
    ids = torch.randint(4, VOCAB_SIZE, (3, 9))
    first, second = model(ids, ids), model(ids, ids)
    assert not torch.equal(first, second)


def test_embeddings_of_source_and_target_are_dropped_in_training_only() -> None:
    model = transformer(TransformerConfig(vocab_size=VOCAB_SIZE, n_layers=1, p_drop=0.25))
    ids = torch.randint(4, VOCAB_SIZE, (8, 30))
    inputs: list[Tensor] = []
    for layer in (model.encoder[0], model.decoder[0]):
        layer.register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0]))
    model.train()(ids, ids)
    model.eval()(ids, ids)
    for dropped in inputs[:2]:
        assert abs((dropped == 0).float().mean().item() - 0.25) < 0.02
    for whole in inputs[2:]:
        assert (whole != 0).all()


def test_source_target_and_output_share_one_matrix() -> None:
    model = transformer(TransformerConfig(vocab_size=VOCAB_SIZE, n_layers=1))
    shapes = [tuple(parameter.shape) for parameter in model.parameters()]
    assert shapes.count((VOCAB_SIZE, 512)) == 1
    states, ids = torch.randn(4, 512), torch.arange(VOCAB_SIZE)
    rows = model.embedding(ids) / 512**0.5
    assert_close(model.embedding.logits(states), states @ rows.T)
