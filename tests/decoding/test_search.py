"""Every way to search finds what a plain one finds, whatever the batch and whoever leaves it."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.decoding.naive import naive_search
from tests.drawing import seeds
from transduce import build_model
from transduce.config.schema import ModelConfig
from transduce.decoding import beam as beams
from transduce.decoding import graphs
from transduce.decoding.answer import Answer
from transduce.decoding.beam import Beam, beam_search
from transduce.decoding.graphs import GraphedBeamSearch
from transduce.models.transformer import Transformer
from transduce.text.special_ids import EOS_ID, PAD_ID

LONGEST = 20


class PlainSteps(graphs._Recorded[Any]):
    """Plays no graph: every step is done as it is."""

    def advance(self) -> None:
        self._step()


class ThereAtOnce:
    """Booleans that need not travel, but are still looked at one step later."""

    def __init__(self, flags: Tensor) -> None:
        self._flags = flags.tolist()

    def read(self) -> list[bool]:
        return list(self._flags)


@pytest.fixture(autouse=True)
def without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "_Recorded", PlainSteps)
    monkeypatch.setattr(graphs, "_Flags", ThereAtOnce)


def talkative(vocab_size: int, seed: int, liking: float) -> Transformer:
    """Build a model that likes to end a sentence more or less."""
    shape = ModelConfig(
        vocab_size=vocab_size, n_layers=1, d_model=16, d_ff=16, h=2, max_positions=LONGEST
    )
    model = build_model(shape, seed=seed).double().eval()
    with torch.no_grad():
        model.embedding.weight[EOS_ID] *= liking
    return model


def padded(rows: list[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    filled = [row + [PAD_ID] * (longest - len(row)) for row in rows]
    return torch.tensor(filled, dtype=torch.long).view(len(rows), longest)


def assert_same(found: list[Answer], expected: list[Answer]) -> None:
    assert [(one.ids, one.is_finished) for one in found] == [
        (one.ids, one.is_finished) for one in expected
    ]
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], rel=1e-4)


@given(
    vocab_size=st.sampled_from([5, 8, 300]),
    size=st.integers(1, 6),
    alpha=st.sampled_from([0.0, 0.6, 3.0]),
    liking=st.sampled_from([0.0, 1.0, 2.0, 4.0]),
    seed=seeds,
    data=st.data(),
)
@settings(max_examples=60)
def test_all_searches_are_the_plain_one(
    vocab_size: int, size: int, alpha: float, liking: float, seed: int, data: st.DataObject
) -> None:
    model = talkative(vocab_size, seed, liking)
    beam = Beam(size, alpha, data.draw(st.integers(1, size), label="n_best"))
    words = st.integers(4, vocab_size - 1)
    searching = GraphedBeamSearch(model, longest_source=LONGEST, max_positions=2_000)
    for count in (data.draw(st.integers(1, 5)), 3):  # the second may find memory of the first
        rows = [data.draw(st.lists(words, min_size=1, max_size=8)) for _ in range(count)]
        limits = [data.draw(st.integers(1, LONGEST)) for _ in rows]
        begins = [data.draw(st.lists(words, max_size=min(3, limit))) for limit in limits]
        expected = [
            naive_search(model, row, beam, limit, begin)
            for row, limit, begin in zip(rows, limits, begins, strict=True)
        ]
        src, prefix, most = padded(rows), padded(begins), torch.tensor(limits)
        results = [searching(src, beam, max_tokens=most, prefix=prefix)]
        for leaving in (0.0, 1.0):
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(beams, "LEAVING", leaving)
                results.append(beam_search(model, src, beam, max_tokens=most, prefix=prefix))
        for result in results:
            for found, wanted in zip(result, expected, strict=True):
                assert_same(found, wanted)


def test_sources_are_not_padded_beyond_the_models_positions() -> None:
    model = talkative(8, seed=1, liking=2.0)
    searching = GraphedBeamSearch(model, longest_source=LONGEST, max_positions=2_000)
    src = torch.full((1, LONGEST - 1), 5)
    none = torch.zeros(1, 0, dtype=torch.long)
    [found] = searching(src, Beam(2), max_tokens=torch.tensor([LONGEST]), prefix=none)
    assert_same(found, naive_search(model, src[0].tolist(), Beam(2), LONGEST, []))
