"""Token-by-token search computes what whole-sentence decoding computes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import VOCAB_SIZE, models, padded_ids, random_ids, seeds
from transduce.errors import InputError
from transduce.models.transformer.model import Transformer
from transduce.nn.step_state import LayerState, StateGroup

MAX_STEPS = 8
Prefixes = list[list[list[int]]]
"""The tokens read so far, by sentence and hypothesis."""


def uncached_logits(model: Transformer, src: Tensor, prefixes: Prefixes) -> Tensor:
    """Score the next token of every hypothesis from scratch: [B, k, V]."""
    rows = []
    for sentence, hypotheses in enumerate(prefixes):
        sources = src[sentence].expand(len(hypotheses), -1)
        rows.append(model(sources, torch.tensor(hypotheses))[:, -1])
    return torch.stack(rows)


def any_of(data: st.DataObject, choices: int, count: int) -> list[int]:
    return data.draw(st.lists(st.integers(0, choices - 1), min_size=count, max_size=count))


@given(model=models(), src=padded_ids(), k=st.integers(1, 4), data=st.data())
def test_cached_steps_equal_uncached_decoding_through_any_search(
    model: Transformer, src: Tensor, k: int, data: st.DataObject
) -> None:
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


@given(model=models(), src=padded_ids(sentences=2))
def test_steps_and_beams_take_no_new_memory(model: Transformer, src: Tensor) -> None:
    state = model.start(model.encode(src), hypotheses=4, max_steps=3)
    before = [tensor.data_ptr() for tensor in tensors_of(state)]
    assert len(before) == 2 + 4 * len(model.decoder)
    for step in range(3):
        position = torch.tensor([step])
        model.step(torch.full((2, 4), 5), state, position=position, reach=step + 1)
        state.select(torch.zeros(2, 4, dtype=torch.long))
    assert [tensor.data_ptr() for tensor in tensors_of(state)] == before
    for layer in state.layers:
        assert layer.source_keys.tensor.size(0) == 2  # one row a sentence, not one a hypothesis


@given(model=models(), data=st.data())
def test_memory_can_be_used_again(model: Transformer, data: st.DataObject) -> None:
    old, src = random_ids([7, 3], seed=data.draw(seeds)), random_ids([5, 7], seed=data.draw(seeds))
    used = model.start(model.encode(old), hypotheses=2, max_steps=3)
    for step in range(3):
        ids = torch.full((2, 2), 5 + step)
        model.step(ids, used, position=torch.tensor([step]), reach=step + 1)
    fresh = model.start(model.encode(src), hypotheses=2, max_steps=1)
    used.copy_from(fresh, torch.arange(2), steps=0)
    found = model.step(torch.full((2, 2), 6), used, position=torch.tensor([0]), reach=3)
    assert_close(found, uncached_logits(model, src, [[[6]] * 2] * 2), rtol=0, atol=1e-11)


@given(model=models(max_positions=16), src=padded_ids(sentences=1))
def test_more_steps_than_the_model_has_positions_are_refused(
    model: Transformer, src: Tensor
) -> None:
    with pytest.raises(InputError, match=r"17 tokens is longer than model.max_positions=16"):
        model.start(model.encode(src), hypotheses=1, max_steps=17)
