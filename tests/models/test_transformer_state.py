"""Token-by-token search computes what whole-sentence decoding computes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import VOCAB_SIZE, models, padded_ids
from transduce.models.attention_maps import attention_maps, step_with_maps
from transduce.models.transformer import Transformer

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


@given(model=models(), src=padded_ids(), data=st.data())
def test_cached_steps_equal_uncached_decoding_through_any_search(
    model: Transformer, src: Tensor, data: st.DataObject
) -> None:
    prefixes: Prefixes = [[[]] for _ in range(src.size(0))]
    state = model.start(model.encode(src), max_steps=MAX_STEPS)
    for _ in range(data.draw(st.integers(1, MAX_STEPS))):
        k = len(prefixes[0])
        tokens = [any_of(data, VOCAB_SIZE - 4, k) for _ in prefixes]
        last_ids = torch.tensor(tokens) + 4
        for sentence, hypotheses in enumerate(prefixes):
            prefixes[sentence] = [
                [*prefix, int(last_ids[sentence, beam])] for beam, prefix in enumerate(hypotheses)
            ]
        logits, state = model.step(last_ids, state)
        assert_close(logits, uncached_logits(model, src, prefixes), rtol=0, atol=1e-11)

        if data.draw(st.booleans()):  # a new beam: reordered, repeated, narrower or wider
            width = data.draw(st.integers(1, 4))
            beams = [any_of(data, k, width) for _ in prefixes]
            state = state.select(torch.tensor(beams))
            prefixes = [
                [old[beam] for beam in row] for old, row in zip(prefixes, beams, strict=True)
            ]
        if data.draw(st.booleans()):  # some sentences are finished
            count = data.draw(st.integers(1, len(prefixes)))
            kept = any_of(data, len(prefixes), count)
            state, src = state.keep(torch.tensor(kept)), src[kept]
            prefixes = [prefixes[sentence] for sentence in kept]


@given(model=models(), src=padded_ids(sentences=3), tgt=padded_ids(sentences=3))
def test_weights_of_steps_are_the_rows_of_the_whole_maps(
    model: Transformer, src: Tensor, tgt: Tensor
) -> None:
    maps = attention_maps(model, src, tgt)
    state = model.start(model.encode(src), max_steps=tgt.size(1))
    twice = torch.zeros(3, 2, dtype=torch.long)
    state = state.select(twice)
    for t in range(tgt.size(1)):
        _, state, step = step_with_maps(model, tgt[:, t, None].expand(3, 2), state)
        for hypothesis in (slice(0, None, 2), slice(1, None, 2)):
            row = maps.decoder[:, :, :, t : t + 1, : t + 1]
            assert_close(step.decoder[:, hypothesis], row, rtol=0, atol=1e-11)
            assert_close(
                step.cross[:, hypothesis], maps.cross[:, :, :, t : t + 1], rtol=0, atol=1e-11
            )


@given(model=models(), src=padded_ids(sentences=2))
def test_steps_and_beams_take_no_new_memory_for_the_source(model: Transformer, src: Tensor) -> None:
    state = model.start(model.encode(src), max_steps=3)
    source, cache = state.memory_keys.data_ptr(), state.keys.data_ptr()
    _, state = model.step(torch.full((2, 1), 5), state)
    assert state.keys.data_ptr() == cache
    wide = state.select(torch.zeros(2, 4, dtype=torch.long))
    _, wide = model.step(torch.full((2, 4), 5), wide)
    assert wide.memory_keys.data_ptr() == source
    assert wide.memory_keys.size(1) == 2
    assert wide.keys.size(1) == 8


@given(model=models(), src=padded_ids(sentences=2))
def test_a_selected_copy_goes_on_apart_from_its_origin(model: Transformer, src: Tensor) -> None:
    _, origin = model.step(torch.full((2, 1), 5), model.start(model.encode(src), max_steps=3))
    copy = origin.select(torch.zeros(2, 1, dtype=torch.long))
    _, origin = model.step(torch.full((2, 1), 6), origin)
    _, copy = model.step(torch.full((2, 1), 7), copy)
    for state, tokens in ((origin, [5, 6, 8]), (copy, [5, 7, 8])):
        logits, _ = model.step(torch.full((2, 1), 8), state)
        assert_close(logits, uncached_logits(model, src, [[tokens], [tokens]]), rtol=0, atol=1e-11)


@given(model=models(), src=padded_ids(sentences=1))
def test_more_steps_than_were_asked_for_are_refused(model: Transformer, src: Tensor) -> None:
    _, state = model.step(torch.tensor([[5]]), model.start(model.encode(src), max_steps=1))
    with pytest.raises(AssertionError, match="started for 1 steps, asked for 2"):
        model.step(torch.tensor([[5]]), state)
