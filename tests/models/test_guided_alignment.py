"""A guided head is trained by its weight for the linked token, padded and packed alike."""

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._dynamo.utils import counters
from torch.testing import assert_close

from tests.drawing import VOCAB_SIZE, lengths_of, padded_ids, random_ids, seeds, transformer
from tests.models.test_transformer import layout_of
from transduce.config.schema import Config
from transduce.errors import ConfigError
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn import guided_attention
from transduce.text.special_ids import PAD_ID

SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE, "n_layers": 3, "d_model": 16, "d_ff": 24, "h": 4, "p_drop": 0.0,
    "max_positions": 1200, "guided_alignment": 0.3,
}  # fmt: skip


def model(**changes: Any) -> Transformer:
    return transformer(TransformerConfig.model_validate(SHAPE | changes)).double().train()


def drawn_links(src: Tensor, tgt: Tensor, *, seed: int) -> Tensor:
    """Link each real target token with a source token of its sentence, or with none."""
    generator = torch.Generator().manual_seed(seed)
    links = torch.full_like(tgt, -1)
    for row, (n_src, n_tgt) in enumerate(zip(lengths_of(src), lengths_of(tgt), strict=True)):
        drawn = torch.randint(-2, n_src, (n_tgt,), generator=generator)
        links[row, :n_tgt] = drawn.clamp_min(-1)
    return links


def guided(of: Transformer, *inputs: Any) -> tuple[Tensor, list[Tensor]]:
    """Return the loss of the guide for each target token, and its gradients."""
    of.zero_grad()
    found = of.training_states(*inputs)
    assert found.auxiliary is not None
    torch.autograd.backward(found.auxiliary)
    return found.auxiliary.detach(), [p.grad.clone() for p in of.parameters() if p.grad is not None]


@settings(max_examples=20)
@given(
    src=padded_ids(sentences=3),
    tgt=padded_ids(sentences=3),
    seed=seeds,
    other=st.sampled_from([{}, {"kv_heads": 2}, {"qk_norm": True}, {"attention_score": "unscaled"},
                           {"norm": "pre", "attention_bias": True}, {"alignment_layer": 3}]),
)  # fmt: skip
def test_the_loss_is_that_of_the_weights_that_are_shown(
    src: Tensor, tgt: Tensor, seed: int, other: dict[str, Any]
) -> None:
    built = model(**other)
    links = drawn_links(src, tgt, seed=seed)
    loss, _ = guided(built, src, tgt, None, links)
    assert built.abilities.alignment_head is not None
    layer, head = built.abilities.alignment_head
    weights = built.attention_maps(src, tgt).cross[layer, :, head]  # [B, T, S]
    chosen = weights.gather(2, links.clamp_min(0)[:, :, None])[:, :, 0]
    expected = -0.3 * (chosen.log() * (links >= 0)).sum() / (tgt != PAD_ID).sum()
    assert_close(loss, expected.detach(), rtol=1e-9, atol=1e-12)


def test_states_are_those_of_training_without_links() -> None:
    built = model()
    src, tgt = random_ids([7, 3], seed=1), random_ids([2, 6], seed=2)
    links = drawn_links(src, tgt, seed=3)
    found, plain = built.training_states(src, tgt, None, links), built.training_states(src, tgt)
    assert plain.auxiliary is None
    assert_close(found.states, plain.states, rtol=0, atol=0)


@pytest.mark.parametrize("lengths", [([7, 3, 5], [2, 6, 4]), ([300, 5, 90, 40], [260, 9, 70, 150])])
def test_packed_rows_are_guided_as_padded_batches(lengths: tuple[list[int], list[int]]) -> None:
    built = model()
    src, tgt = random_ids(lengths[0], seed=1), random_ids(lengths[1], seed=2)
    links = drawn_links(src, tgt, seed=3)
    rows = [torch.cat([ids[ids != PAD_ID], torch.full((3,), PAD_ID)])[None] for ids in (src, tgt)]
    row_links = packed_links(links, src, tgt)
    expected, gradients = guided(built, src, tgt, None, links)
    layout = layout_of(*lengths, rest=3)
    found, packed_gradients = guided(built, *rows, layout, row_links)
    assert_close(found, expected, rtol=1e-9, atol=1e-12)
    for mine, its in zip(packed_gradients, gradients, strict=True):
        assert_close(mine, its, rtol=1e-7, atol=1e-10)


def packed_links(links: Tensor, src: Tensor, tgt: Tensor, *, rest: int = 3) -> Tensor:
    starts = torch.tensor([0, *lengths_of(src)[:-1]]).cumsum(0)
    moved = torch.where(links >= 0, links + starts[:, None], -1)[tgt != PAD_ID]
    return torch.cat([moved, torch.full((rest,), -1)])[None]


def test_a_sentence_beyond_the_window_is_not_guided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guided_attention, "WINDOW", 16)
    monkeypatch.setattr(guided_attention, "BLOCK", 4)
    built = model()
    src, tgt = random_ids([20, 5], seed=1), random_ids([4, 4], seed=2)
    links = drawn_links(src, tgt, seed=5)
    rows = [torch.cat([ids[ids != PAD_ID], torch.full((3,), PAD_ID)])[None] for ids in (src, tgt)]
    layout = layout_of([20, 5], [4, 4], rest=3)
    found, _ = guided(built, *rows, layout, packed_links(links, src, tgt))
    links[0] = -1
    expected, _ = guided(built, src, tgt, None, links)
    assert expected > 0
    assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_compiled_layers_are_guided_too_and_one_graph_serves_the_others() -> None:
    torch.compiler.reset()
    counters.clear()
    eager = model()
    compiled = copy.deepcopy(eager)
    for layer in (*compiled.encoder, *compiled.decoder):
        layer.compile(dynamic=False, fullgraph=True, backend="aot_eager")
    layout = layout_of([7, 3, 5], [2, 6, 4], rest=3)
    src, tgt = random_ids([18], seed=1), random_ids([15], seed=2)
    links = torch.tensor([[3, -1, 7, 9, 8, -1, 7, 9, 10, 14, -1, 12, -1, -1, -1]])
    for each in (compiled, eager):
        found = each.training_states(src, tgt, layout, links)
        assert found.auxiliary is not None
        torch.autograd.backward(found.states.square().mean() + found.auxiliary)
    for ours, theirs in zip(compiled.parameters(), eager.parameters(), strict=True):
        assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-12)
    assert counters["stats"]["unique_graphs"] == 3  # encoder, decoder, and the guided layer


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"cross_mixer": "linformer"}, "cross_mixer=linformer"),
        ({"attention_score": "additive"}, "attention_score=additive"),
        ({"alignment_layer": 9}, "layers 1 to 6"),
    ],
)
def test_what_cannot_be_guided_is_refused(settings_: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config.from_tree({"model": {"guided_alignment": 0.1} | settings_})


def test_the_head_is_the_first_of_the_last_layer_but_one() -> None:
    assert model().abilities.alignment_head == (1, 0)
    assert model(n_layers=1).abilities.alignment_head == (0, 0)
    assert model(alignment_layer=3).abilities.alignment_head == (2, 0)
    assert model(guided_alignment=0).abilities.alignment_head is None
