"""A search among the candidates of each sentence is a plain search that allows nothing else."""

from collections.abc import Callable

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from tests.drawing import seeds
from tests.search.naive import naive_search
from tests.search.test_search import LONGEST, assert_same, padded, talkative
from transduce.models.base import Memory
from transduce.models.transformer.model import Transformer
from transduce.search.beam import Beam, beam_search
from transduce.search.hypothesis import Hypothesis
from transduce.search.narrowed import NarrowedModel
from transduce.text.special_ids import PAD_ID

SPECIAL = 4


class Masked:
    """The model, with no probability for all that is no candidate."""

    def __init__(self, model: Transformer, candidates: NDArray[np.bool_]) -> None:
        self._model = model
        self._is_out = torch.from_numpy(~candidates)
        self._is_out[PAD_ID] = True

    def encode(self, src: Tensor) -> Memory:
        return self._model.encode(src)

    def decode(self, memory: Memory, tgt_in: Tensor) -> Tensor:
        return self._model.decode(memory, tgt_in).masked_fill(self._is_out, -torch.inf)


def narrowed_search(
    model: Transformer,
    rows: list[list[int]],
    candidates: NDArray[np.bool_],
    beam: Beam,
    *,
    limits: list[int],
    prefixes: list[list[int]],
) -> list[list[Hypothesis]]:
    narrowed = NarrowedModel(model, model.projection.detach(), candidates)
    found = beam_search(
        narrowed,
        padded(rows),
        beam,
        max_tokens=torch.tensor(limits),
        constraint=narrowed.prefixes(prefixes),
    )
    return narrowed.in_whole_vocabulary(found)


def allowed_after(candidates: NDArray[np.bool_], prefix: list[int]) -> Callable[..., list[int]]:
    free = [token for token in np.flatnonzero(candidates).tolist() if token != PAD_ID]
    return lambda ids: [prefix[len(ids)]] if len(ids) < len(prefix) else free


@given(data=st.data())
@settings(max_examples=25)
def test_it_is_the_plain_search_among_the_candidates(data: st.DataObject) -> None:
    vocab_size = data.draw(st.sampled_from([6, 40, 300]), label="vocab_size")
    beam = Beam(size := data.draw(st.integers(1, 5)), data.draw(st.sampled_from([0.0, 0.6])), size)
    model = talkative(vocab_size, data.draw(seeds), data.draw(st.sampled_from([1.0, 2.0, 4.0])))
    tokens = st.integers(SPECIAL, vocab_size - 1)
    rows = data.draw(st.lists(st.lists(tokens, min_size=1, max_size=8), min_size=1, max_size=5))
    limits = [data.draw(st.integers(1, LONGEST)) for _ in rows]
    prefixes = [data.draw(st.lists(tokens, max_size=min(2, limit))) for limit in limits]
    share = data.draw(st.sampled_from([0.05, 0.5, 1.0]), label="share")
    candidates = np.random.default_rng(data.draw(seeds)).random((len(rows), vocab_size)) < share
    candidates[:, :SPECIAL] = True
    for row, prefix in enumerate(prefixes):
        candidates[row, prefix] = True
    found = narrowed_search(model, rows, candidates, beam, limits=limits, prefixes=prefixes)
    for row, one in enumerate(found):
        expected = naive_search(
            Masked(model, candidates[row]),  # type: ignore[arg-type]
            rows[row],
            beam,
            limit=limits[row],
            allowed_after=allowed_after(candidates[row], prefixes[row]),
        )
        assert_same(one, expected)
        assert all(candidates[row, each.ids].all() for each in one)


@given(seed=seeds, size=st.integers(1, 4), data=st.data())
@settings(max_examples=25)
def test_a_sentence_gets_the_same_scores_alone_and_in_a_batch(
    seed: int, size: int, data: st.DataObject
) -> None:
    vocab_size = 300
    model = talkative(vocab_size, seed, 2.0).float()
    tokens = st.integers(SPECIAL, vocab_size - 1)
    rows = data.draw(st.lists(st.lists(tokens, min_size=3, max_size=3), min_size=2, max_size=6))
    candidates = np.random.default_rng(seed).random((len(rows), vocab_size)) < 0.2
    candidates[:, :SPECIAL] = True
    beam, limits = Beam(size, 0.6, size), [LONGEST] * len(rows)
    none: list[list[int]] = [[] for _ in rows]
    found = narrowed_search(model, rows, candidates, beam, limits=limits, prefixes=none)
    for row, together in enumerate(found):
        [alone] = narrowed_search(
            model, [rows[row]], candidates[[row]], beam, limits=limits[:1], prefixes=[[]]
        )
        assert_same(together, alone)
