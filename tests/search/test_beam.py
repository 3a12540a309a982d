"""Beam search against exhaustive search, greedy search and forced scores.

Where hypotheses are compared, models are wide: of width 2, a layer norm gives ±1 and scores tie.
"""

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.drawing import models, padded_ids, seeds, transformer
from tests.search.greedy import best_without_cache
from transduce.models.base import Abilities
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.search.beam import Beam, beam_search
from transduce.search.constraint import PrefixConstraint
from transduce.search.ensemble import Ensemble
from transduce.search.forced import forced_scores
from transduce.search.hypothesis import Hypothesis
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID

VOCAB_SIZE, LIMIT = 6, 3
WIDE = VOCAB_SIZE**LIMIT
MAX_TOKENS = 12
alphas = st.sampled_from([0.0, 0.6, 1.0])


def limits_for(src: Tensor) -> Tensor:
    """Give every sentence of a batch another limit; the first has the longest."""
    return MAX_TOKENS - torch.arange(src.size(0))


@torch.no_grad()
def log_probabilities(model: Transformer, src: Tensor, rows: list[list[int]]) -> list[float]:
    """Score translations of one length from whole prefixes, without a cache."""
    tgt_out = torch.tensor(rows)
    tgt_in = torch.cat([torch.full_like(tgt_out[:, :1], BOS_ID), tgt_out[:, :-1]], dim=1)
    log_p = model(src.expand(len(rows), -1), tgt_in).log_softmax(dim=-1)
    sums: list[float] = log_p.gather(2, tgt_out[:, :, None]).sum(dim=(1, 2)).tolist()
    return sums


def exhaustive(model: Transformer, src: Tensor, alpha: float) -> list[tuple[float, list[int]]]:
    """Score every translation that ends within the limit."""
    words = [token for token in range(VOCAB_SIZE) if token != EOS_ID]
    found = []
    for length in range(LIMIT):
        every = [[*ids, EOS_ID] for ids in itertools.product(words, repeat=length)]
        penalty = ((5 + length + 1) / 6) ** alpha
        for ids, score in zip(every, log_probabilities(model, src, every), strict=True):
            found.append((score / penalty, ids[:-1]))
    return sorted(found, reverse=True)


def check_exhaustively(model: Transformer, alpha: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    src = torch.randint(4, VOCAB_SIZE, (2, 4), generator=generator)
    n_best = 5
    limits = torch.tensor([LIMIT, LIMIT])
    for row, found in enumerate(
        beam_search(model, src, Beam(WIDE, alpha, n_best), max_tokens=limits)
    ):
        ranked = exhaustive(model, src[row : row + 1], alpha)[: n_best + 1]
        expected = ranked[:n_best]
        assert [one.score for one in found] == pytest.approx([s for s, _ in expected], rel=1e-5)
        assert all(one.is_finished for one in found)
        closest = min(a - b for (a, _), (b, _) in itertools.pairwise(ranked))
        if closest > 1e-5:
            assert [one.ids for one in found] == [ids for _, ids in expected]


@given(model=models(vocab_size=VOCAB_SIZE), alpha=alphas, seed=seeds)
@settings(max_examples=40)
def test_a_wide_beam_is_exhaustive_search(model: Transformer, alpha: float, seed: int) -> None:
    check_exhaustively(model, alpha, seed)


@pytest.mark.exhaustive
@given(model=models(vocab_size=VOCAB_SIZE), alpha=alphas, seed=seeds)
@settings(max_examples=200)
def test_a_wide_beam_is_exhaustive_search_for_many_models(
    model: Transformer, alpha: float, seed: int
) -> None:
    check_exhaustively(model, alpha, seed)


@given(model=models(), src=padded_ids(), alpha=alphas)
@settings(max_examples=20)
def test_a_beam_of_one_is_greedy_search(model: Transformer, src: Tensor, alpha: float) -> None:
    limits = limits_for(src)
    found = beam_search(model, src, Beam(1, alpha), max_tokens=limits)
    sentences = [row[None, row != PAD_ID] for row in src]
    assert [best.ids for [best] in found] == [
        best_without_cache(model, sentence, limit)
        for sentence, limit in zip(sentences, limits.tolist(), strict=True)
    ]


@given(model=models(), src=padded_ids(), size=st.integers(1, 5), alpha=alphas, data=st.data())
def test_hypotheses_are_sorted_distinct_and_score_what_they_score_forced(
    model: Transformer, src: Tensor, size: int, alpha: float, data: st.DataObject
) -> None:
    n_best = data.draw(st.integers(1, size))
    limits = limits_for(src)
    for row, found in enumerate(
        beam_search(model, src, Beam(size, alpha, n_best), max_tokens=limits)
    ):
        assert 1 <= len(found) <= n_best
        assert len({(tuple(one.ids), one.is_finished) for one in found}) == len(found)
        for finished in (True, False):
            scores = [one.score for one in found if one.is_finished == finished]
            assert scores == sorted(scores, reverse=True)
        for one in found:
            assert forced(model, src[row : row + 1], one, alpha) == pytest.approx(
                one.score, rel=1e-4
            )
            assert len(one.ids) + one.is_finished <= limits[row]


def forced(model: Transformer, src: Tensor, hypothesis: Hypothesis, alpha: float) -> float:
    ids = [*hypothesis.ids, EOS_ID] if hypothesis.is_finished else hypothesis.ids
    tgt_out = torch.tensor([ids])
    tgt_in = torch.tensor([[BOS_ID, *ids[:-1]]])
    found = forced_scores(model, src, tgt_in, tgt_out)
    real = [token for token in ids if token != PAD_ID]
    if len(real) < len(ids):  # a model may write padding: forced scores do not count it
        return hypothesis.score
    return float(found.sums[0] / ((5 + len(ids)) / 6) ** alpha)


@given(model=models(d_model=16), src=padded_ids(), size=st.integers(1, 4), alpha=alphas)
def test_a_sentence_gets_the_same_hypotheses_alone_and_in_a_batch(
    model: Transformer, src: Tensor, size: int, alpha: float
) -> None:
    limits = limits_for(src)
    together = beam_search(model, src, Beam(size, alpha, size), max_tokens=limits)
    for row, found in enumerate(together):
        alone = src[row : row + 1, : int((src[row] != PAD_ID).sum())]
        [expected] = beam_search(
            model, alone, Beam(size, alpha, size), max_tokens=limits[row : row + 1]
        )
        assert [one.ids for one in found] == [one.ids for one in expected]


@given(model=models(), src=padded_ids(), size=st.integers(1, 4), data=st.data())
def test_a_prefix_is_kept_and_scored(
    model: Transformer, src: Tensor, size: int, data: st.DataObject
) -> None:
    prefixes = [
        data.draw(st.lists(st.integers(4, 22), max_size=4), label="prefix")
        for _ in range(src.size(0))
    ]
    prefix = torch.tensor([ids + [PAD_ID] * (4 - len(ids)) for ids in prefixes])
    found = beam_search(
        model,
        src,
        Beam(size),
        max_tokens=limits_for(src),
        constraint=PrefixConstraint(prefix, 23),
    )
    for row, [best] in enumerate(found):
        assert best.ids[: len(prefixes[row])] == prefixes[row]
        assert forced(model, src[row : row + 1], best, 0.6) == pytest.approx(best.score, rel=1e-4)


@given(model=models(d_model=16), src=padded_ids(), size=st.integers(1, 4))
@settings(max_examples=20)
def test_an_ensemble_of_a_model_with_itself_is_the_model(
    model: Transformer, src: Tensor, size: int
) -> None:
    limits = limits_for(src)
    beam = Beam(size, n_best=size)
    one = beam_search(model, src, beam, max_tokens=limits)
    three = beam_search(Ensemble([model] * 3), src, beam, max_tokens=limits)
    for expected, found in zip(one, three, strict=True):
        assert [best.ids for best in found] == [best.ids for best in expected]
        assert [best.score for best in found] == pytest.approx(
            [best.score for best in expected], rel=1e-5
        )


class Unrecorded(Transformer):
    """A model whose step cannot be recorded."""

    @property
    def abilities(self) -> Abilities:
        return replace(super().abilities, recorded_step=False)


def test_the_step_of_an_ensemble_is_recorded_only_if_those_of_all_models_are() -> None:
    shape = TransformerConfig(vocab_size=9, n_layers=1, d_model=4, d_ff=4, h=1)
    able, unable = transformer(shape), transformer(shape)
    unable.__class__ = Unrecorded
    assert Ensemble([able, able]).abilities.recorded_step
    assert not Ensemble([able, unable]).abilities.recorded_step
