"""A beam of one takes the best next token, for every sentence as if it were alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.drawing import lengths_of, models, padded_ids, random_ids, transformer
from tests.search.greedy import best_without_cache, greedy
from tests.search.scripted import ScriptedModel
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.text.special_ids import EOS_ID

LONGEST = 12


@st.composite
def talkative(draw: st.DrawFn) -> Transformer:
    """Draw models that end their sentences sooner or later."""
    model = draw(models(max_positions=LONGEST))
    with torch.no_grad():
        model.embedding.weight[EOS_ID] *= draw(st.sampled_from([0.0, 1.0, 2.0, 4.0]))
    return model


@given(model=talkative(), src=padded_ids(), data=st.data())
def test_greedy_is_the_best_token_after_every_prefix(
    model: Transformer, src: Tensor, data: st.DataObject
) -> None:
    limits = [data.draw(st.integers(1, LONGEST)) for _ in src]
    found = greedy(model, src, max_tokens=torch.tensor(limits))
    rows = zip(src, lengths_of(src), limits, strict=True)
    assert found == [best_without_cache(model, row[None, :n], limit) for row, n, limit in rows]


@given(model=talkative(), src=padded_ids())
def test_a_batch_is_its_sentences_one_by_one(model: Transformer, src: Tensor) -> None:
    limits = LONGEST - torch.arange(src.size(0))
    together = greedy(model, src, max_tokens=limits)
    rows = [slice(n, n + 1) for n in range(src.size(0))]
    assert together == [greedy(model, src[row], max_tokens=limits[row])[0] for row in rows]


def test_some_end_themselves_and_some_are_ended() -> None:
    # Or the two tests above would show less than they seem to.
    src = random_ids([5] * 200, seed=1)
    shape = TransformerConfig(vocab_size=23, n_layers=1, d_model=16, d_ff=8, h=2)
    model = transformer(shape, seed=2)
    with torch.no_grad():
        model.embedding.weight[EOS_ID] *= 2
    limits = torch.full((200,), LONGEST)
    lengths = [len(ids) for ids in greedy(model.eval(), src, max_tokens=limits)]
    assert min(lengths) < LONGEST
    assert max(lengths) == LONGEST


def test_limits_hold_to_the_last_position() -> None:
    src = random_ids([4, 2, 32], seed=3)
    shape = TransformerConfig(vocab_size=23, n_layers=1, d_model=4, d_ff=4, h=1, max_positions=32)
    model = transformer(shape).eval()
    with torch.no_grad():
        model.embedding.weight[:4] = 0  # a zero score: some other token is always better
    for limits in ([32, 32, 32], [1, 20, 3]):
        found = greedy(model, src, max_tokens=torch.tensor(limits))
        assert [len(ids) for ids in found] == limits


def test_the_search_knows_only_the_protocol_and_finished_sentences_leave() -> None:
    script = {(5,): [7, 8, 9], (6,): [], (7, 7): [4] * 6, (8,): [9], (9,): [5] * 99}
    src = torch.tensor([[5, 0], [6, 0], [7, 7], [8, 0], [9, 0]])
    model = ScriptedModel(script, vocab_size=10)
    found = greedy(model, src, max_tokens=torch.tensor([9, 9, 9, 9, 2]))
    assert found == [[7, 8, 9], [], [4] * 6, [9], [5, 5]]
    assert model.rows == [5, 5, 2, 2, 1, 1, 1]  # not one by one: shrinking copies the others


def test_the_search_ends_with_its_last_sentence() -> None:
    model = ScriptedModel({(5,): [7]}, vocab_size=10)
    assert greedy(model, torch.tensor([[5]]), max_tokens=torch.tensor([1])) == [[7]]
    assert model.rows == [1]


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_as_it_was(training: bool) -> None:
    shape = TransformerConfig(vocab_size=23, n_layers=1, d_model=4, d_ff=4, h=1)
    model = transformer(shape).train(training)
    src = random_ids([4, 2], seed=3)
    greedy(model, src, max_tokens=torch.tensor([9, 9]))
    assert all(module.training is training for module in model.modules())
    torch.autograd.backward(model(src, src).sum())
    assert all(p.grad is not None for p in model.parameters())
