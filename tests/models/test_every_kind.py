"""Properties that models of every kind have, for all sizes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import VOCAB_SIZE, lengths_of, padded_ids, random_ids, seeds
from tests.models.every_kind import DRAWN, any_model
from transduce.config.kinds import _OWN
from transduce.models.base import Seq2Seq
from transduce.nn.step_state import LayerState, StateGroup
from transduce.text.special_ids import PAD_ID

MAX_STEPS = 8
Prefixes = list[list[list[int]]]
"""The tokens read so far, by sentence and hypothesis."""

every_kind = pytest.mark.parametrize("kind", DRAWN)


def test_every_kind_of_this_package_is_tested() -> None:
    assert DRAWN.keys() == _OWN.keys()


@every_kind
@given(data=st.data())
def test_a_future_token_changes_no_earlier_logit(kind: str, data: st.DataObject) -> None:
    model = data.draw(any_model(kind))
    src, tgt = (data.draw(padded_ids(sentences=2)) for _ in range(2))
    position = data.draw(st.integers(0, tgt.size(1) - 1))
    changed = tgt.clone()
    changed[:, position] = 4 + (changed[:, position] - 3) % (VOCAB_SIZE - 4)
    before, after = model(src, tgt), model(src, changed)
    assert_close(before[:, :position], after[:, :position], rtol=0, atol=1e-12)
    assert not torch.equal(before[:, position], after[:, position])


@every_kind
@given(data=st.data())
def test_a_sentence_scores_the_same_alone_and_padded_in_a_batch(
    kind: str, data: st.DataObject
) -> None:
    model = data.draw(any_model(kind))
    src, tgt = (data.draw(padded_ids(sentences=3)) for _ in range(2))
    together = model(src, tgt)
    for row, (n, m) in enumerate(zip(lengths_of(src), lengths_of(tgt), strict=True)):
        alone = model(src[row : row + 1, :n], tgt[row : row + 1, :m])
        assert_close(together[row : row + 1, :m], alone, rtol=0, atol=1e-11)


@pytest.mark.exhaustive(after=2)
@every_kind
@given(data=st.data())
def test_a_sentence_of_padding_alone_gives_finite_scores(kind: str, data: st.DataObject) -> None:
    model = data.draw(any_model(kind))
    src = torch.full((2, 3), PAD_ID)
    src[0, 0] = 5
    assert model(src, torch.full((2, 4), 6)).isfinite().all()


@every_kind
@given(data=st.data())
def test_the_states_of_a_training_step_give_the_logits(kind: str, data: st.DataObject) -> None:
    model = data.draw(any_model(kind))
    src, tgt = (data.draw(padded_ids(sentences=2)) for _ in range(2))
    states = model.training_states(src, tgt).states
    assert_close(states @ model.projection.T, model(src, tgt), rtol=0, atol=1e-11)


def uncached_logits(model: Seq2Seq, src: Tensor, prefixes: Prefixes) -> Tensor:
    """Score the next token of every hypothesis from scratch: [B, k, V]."""
    rows = []
    for sentence, hypotheses in enumerate(prefixes):
        sources = src[sentence].expand(len(hypotheses), -1)
        rows.append(model(sources, torch.tensor(hypotheses))[:, -1])
    return torch.stack(rows)


def any_of(data: st.DataObject, choices: int, count: int) -> list[int]:
    return data.draw(st.lists(st.integers(0, choices - 1), min_size=count, max_size=count))


@every_kind
@given(data=st.data())
def test_cached_steps_equal_uncached_decoding_through_any_search(
    kind: str, data: st.DataObject
) -> None:
    model, src, k = (
        data.draw(any_model(kind)),
        data.draw(padded_ids()),
        data.draw(st.integers(1, 4)),
    )
    prefixes: Prefixes = [[[]] * k for _ in range(src.size(0))]
    state = model.start(model.encode(src), hypotheses=k, max_steps=MAX_STEPS)
    for step in range(data.draw(st.integers(1, MAX_STEPS))):
        tokens = [any_of(data, VOCAB_SIZE - 4, k) for _ in prefixes]
        last_ids = torch.tensor(tokens) + 4
        for sentence, hypotheses in enumerate(prefixes):
            prefixes[sentence] = [
                [*prefix, int(last_ids[sentence, beam])] for beam, prefix in enumerate(hypotheses)
            ]
        reach = data.draw(st.integers(step + 1, MAX_STEPS))  # more than needed changes nothing
        logits = model.step(last_ids, state, position=torch.tensor([step]), reach=reach)
        assert_close(logits, uncached_logits(model, src, prefixes), rtol=0, atol=1e-11)

        if data.draw(st.booleans()):  # the beam is reordered; some repeat, some drop
            beams = [any_of(data, k, k) for _ in prefixes]
            state.select(torch.tensor(beams))
            prefixes = [
                [old[beam] for beam in row] for old, row in zip(prefixes, beams, strict=True)
            ]
        if data.draw(st.booleans()):  # some sentences are finished
            count = data.draw(st.integers(1, len(prefixes)))
            kept = any_of(data, len(prefixes), count)
            smaller = state.allocate_like(count, max_steps=MAX_STEPS)
            smaller.copy_from(state, torch.tensor(kept), steps=step + 1)
            state, src = smaller, src[kept]
            prefixes = [prefixes[sentence] for sentence in kept]


def tensors_of(state: LayerState) -> list[Tensor]:
    """Collect the tensors of a state and of all its parts."""
    if isinstance(state, StateGroup):
        return [tensor for part in state.parts() for tensor in tensors_of(part)]
    return [value for value in vars(state).values() if isinstance(value, Tensor)]


@pytest.mark.exhaustive(after=2)
@every_kind
@given(data=st.data())
def test_steps_and_beams_take_no_new_memory(kind: str, data: st.DataObject) -> None:
    model, src = data.draw(any_model(kind)), data.draw(padded_ids(sentences=2))
    state = model.start(model.encode(src), hypotheses=4, max_steps=3)
    before = [tensor.data_ptr() for tensor in tensors_of(state)]
    assert before
    for step in range(3):
        position = torch.tensor([step])
        model.step(torch.full((2, 4), 5), state, position=position, reach=step + 1)
        state.select(torch.zeros(2, 4, dtype=torch.long))
    assert [tensor.data_ptr() for tensor in tensors_of(state)] == before


@pytest.mark.exhaustive(after=2)
@every_kind
@given(data=st.data())
def test_memory_can_be_used_again(kind: str, data: st.DataObject) -> None:
    model = data.draw(any_model(kind))
    old, src = random_ids([7, 3], seed=data.draw(seeds)), random_ids([5, 7], seed=data.draw(seeds))
    used = model.start(model.encode(old), hypotheses=2, max_steps=3)
    for step in range(3):
        ids = torch.full((2, 2), 5 + step)
        model.step(ids, used, position=torch.tensor([step]), reach=step + 1)
    fresh = model.start(model.encode(src), hypotheses=2, max_steps=1)
    used.copy_from(fresh, torch.arange(2), steps=0)
    found = model.step(torch.full((2, 2), 6), used, position=torch.tensor([0]), reach=3)
    assert_close(found, uncached_logits(model, src, [[[6]] * 2] * 2), rtol=0, atol=1e-11)
