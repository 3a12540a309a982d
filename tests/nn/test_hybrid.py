"""Layers of different kinds in one decoder keep the right state through any search."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import VOCAB_SIZE, padded_ids, random_ids, seeds
from tests.nn.hybrid import HybridModel, HybridState, hybrid_model
from tests.search.recorded_on_cpu import REPLACED
from transduce.search import recorded
from transduce.search.beam import Beam, beam_search
from transduce.text.special_ids import BOS_ID, EOS_ID

MAX_STEPS = 9


def any_ids(b: int, k: int, *, seed: int) -> Tensor:
    return random_ids([k] * b, seed=seed)


def whole_logits(model: HybridModel, src: Tensor, read: Tensor) -> Tensor:
    """Score the next token of every hypothesis, which has read [B, k, T], from scratch."""
    logits: Tensor = model(src.repeat_interleave(read.size(1), dim=0), read.flatten(0, 1))[:, -1]
    return logits.view(*read.shape[:2], -1)  # [B, k, V]


def parts(state: HybridState) -> list[Tensor]:
    """List all memory of a state."""
    return [tensor for part in state.parts() for tensor in vars(part).values()]


@given(src=padded_ids(), k=st.integers(1, 4), seed=seeds, data=st.data())
def test_steps_are_the_whole_sequence_through_any_search(
    src: Tensor, k: int, seed: int, data: st.DataObject
) -> None:
    model = hybrid_model(vocab_size=VOCAB_SIZE, seed=seed).double()
    state = model.start(model.encode(src), hypotheses=k, max_steps=MAX_STEPS)
    read = torch.zeros(src.size(0), k, 0, dtype=torch.long)
    for step in range(data.draw(st.integers(1, MAX_STEPS))):
        last_ids = any_ids(src.size(0), k, seed=data.draw(seeds))
        read = torch.cat([read, last_ids[:, :, None]], dim=2)
        memory = [tensor.data_ptr() for tensor in parts(state)]
        logits = model.step(last_ids, state, position=torch.tensor([step]), reach=step + 1)
        assert_close(logits, whole_logits(model, src, read), rtol=0, atol=1e-11)
        beams = torch.randint(0, k, (src.size(0), k), generator=generator(data))
        state.select(beams)
        assert [tensor.data_ptr() for tensor in parts(state)] == memory, "written in place"
        read = read.gather(1, beams[:, :, None].expand_as(read))
        if data.draw(st.booleans()):  # some sentences are finished
            count = data.draw(st.integers(1, src.size(0)))
            kept = torch.randint(0, src.size(0), (count,), generator=generator(data))
            smaller = state.allocate_like(count, max_steps=MAX_STEPS)
            smaller.copy_from(state, kept, steps=step + 1)
            state, src, read = smaller, src[kept], read[kept]


def generator(data: st.DataObject) -> torch.Generator:
    return torch.Generator().manual_seed(data.draw(seeds))


@given(seed=seeds)
def test_every_layer_keeps_something_that_counts(seed: int) -> None:
    model = hybrid_model(vocab_size=VOCAB_SIZE, seed=seed).double()
    src = random_ids([4, 2], seed=seed)
    state = model.start(model.encode(src), hypotheses=1, max_steps=2)
    model.step(any_ids(2, 1, seed=seed), state, position=torch.tensor([0]), reach=1)

    def next_logits(forgotten: int | None) -> Tensor:
        copy, empty = (state.allocate_like(2, max_steps=2) for _ in range(2))
        copy.copy_from(state, torch.arange(2), steps=1)
        if forgotten is not None:
            copy.layers[forgotten].copy_from(empty.layers[forgotten], torch.arange(2), steps=1)
        return model.step(any_ids(2, 1, seed=seed), copy, position=torch.tensor([1]), reach=2)

    expected = next_logits(None)
    for layer in range(len(state.layers)):
        assert not torch.allclose(next_logits(layer), expected, rtol=0, atol=1e-9)


@given(seed=seeds, k=st.integers(1, 4))
def test_a_beam_search_scores_its_hypotheses_as_the_whole_sequence_does(seed: int, k: int) -> None:
    model = hybrid_model(vocab_size=VOCAB_SIZE, seed=seed).double()
    src = random_ids([5, 2, 7], seed=seed)
    beam = Beam(k, alpha=0.0, n_best=k)
    found = beam_search(model, src, beam, max_tokens=torch.tensor([9, 3, 6]))
    for sentence, hypotheses in enumerate(found):
        for hypothesis in hypotheses:
            ids = hypothesis.ids + [EOS_ID] * hypothesis.is_finished
            tgt_in = torch.tensor([[BOS_ID, *ids[:-1]]])
            scores = model(src[sentence, None], tgt_in).log_softmax(dim=-1)[0]
            forced = scores.gather(1, torch.tensor(ids)[:, None]).sum().item()
            assert hypothesis.score == pytest.approx(forced, rel=1e-6)  # kept in float32


def test_a_search_in_reused_memory_finds_what_a_beam_search_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, replacement in REPLACED:
        monkeypatch.setattr(recorded, name, replacement)
    model = hybrid_model(vocab_size=VOCAB_SIZE, seed=3).double()
    search = recorded.RecordedBeamSearch(model, longest_source=None, max_positions=10_000)
    assert_searches_agree(model, search, "cpu")


def assert_searches_agree(
    model: HybridModel, search: recorded.RecordedBeamSearch[HybridState], device: str
) -> None:
    """Compare two searches in the same memory with plain ones."""
    beam, limits = Beam(4, n_best=4), torch.tensor([9, 30, 6, 20, 40])
    for seed in (1, 2):
        src = random_ids([5, 2, 7, 1, 9], seed=seed).to(device)
        expected = beam_search(model, src, beam, max_tokens=limits)
        found = search(src, beam, max_tokens=limits)
        for ours, theirs in zip(found, expected, strict=True):
            assert [one.ids for one in ours] == [one.ids for one in theirs]
            for one, other in zip(ours, theirs, strict=True):
                assert one.score == pytest.approx(other.score, rel=1e-5)
