"""Beam search against exhaustive search, greedy search and forced scores.

Where answers are compared, models are wide: of width 2, a layer norm gives ±1 and answers tie.
"""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.decoding.greedy import best_without_cache
from tests.drawing import models, padded_ids, seeds
from transduce.decoding.answer import Answer, answer_limits
from transduce.decoding.beam import Beam, beam_search
from transduce.decoding.ensemble import Ensemble
from transduce.decoding.force import forced_scores
from transduce.models.transformer import Transformer
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID

VOCAB_SIZE, LIMIT = 6, 3
WIDE = VOCAB_SIZE**LIMIT
alphas = st.sampled_from([0.0, 0.6, 1.0])


@torch.no_grad()
def log_probability(model: Transformer, src: Tensor, ids: list[int]) -> float:
    """Score ids one by one from whole prefixes, without a cache."""
    tgt_in = torch.tensor([[BOS_ID, *ids[:-1]]])
    log_p = model(src, tgt_in).log_softmax(dim=-1)[0]
    return sum(float(log_p[place, token]) for place, token in enumerate(ids))


def exhaustive(model: Transformer, src: Tensor, alpha: float) -> list[tuple[float, list[int]]]:
    """Score every answer that ends within the limit."""
    words = [token for token in range(VOCAB_SIZE) if token != EOS_ID]
    found = []
    for length in range(LIMIT):
        for ids in itertools.product(words, repeat=length):
            penalty = ((5 + length + 1) / 6) ** alpha
            found.append((log_probability(model, src, [*ids, EOS_ID]) / penalty, list(ids)))
    return sorted(found, reverse=True)


@given(model=models(vocab_size=VOCAB_SIZE), alpha=alphas, seed=seeds)
@settings(max_examples=100)
def test_a_wide_beam_is_exhaustive_search(model: Transformer, alpha: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    src = torch.randint(4, VOCAB_SIZE, (2, 4), generator=generator)
    n_best = 5
    answers = beam_search(
        model, src, Beam(WIDE, alpha, n_best), max_tokens=torch.tensor([LIMIT, LIMIT])
    )
    for row, found in enumerate(answers):
        ranked = exhaustive(model, src[row : row + 1], alpha)[: n_best + 1]
        expected = ranked[:n_best]
        assert [answer.score for answer in found] == pytest.approx(
            [s for s, _ in expected], rel=1e-5
        )
        assert all(answer.is_finished for answer in found)
        close = min(a - b for (a, _), (b, _) in itertools.pairwise(ranked))
        if close > 1e-5:
            assert [answer.ids for answer in found] == [ids for _, ids in expected]


@given(model=models(), src=padded_ids(), alpha=alphas)
def test_a_beam_of_one_is_greedy_search(model: Transformer, src: Tensor, alpha: float) -> None:
    limits = answer_limits(src).clamp(max=20)
    found = beam_search(model, src, Beam(1, alpha), max_tokens=limits)
    sentences = [row[None, row != PAD_ID] for row in src]
    assert [answer.ids for [answer] in found] == [
        best_without_cache(model, sentence, limit)
        for sentence, limit in zip(sentences, limits.tolist(), strict=True)
    ]


@given(model=models(), src=padded_ids(), size=st.integers(1, 5), alpha=alphas, data=st.data())
def test_answers_are_sorted_distinct_and_score_what_they_score_forced(
    model: Transformer, src: Tensor, size: int, alpha: float, data: st.DataObject
) -> None:
    n_best = data.draw(st.integers(1, size))
    limits = answer_limits(src).clamp(max=12)
    for row, answers in enumerate(
        beam_search(model, src, Beam(size, alpha, n_best), max_tokens=limits)
    ):
        assert 1 <= len(answers) <= n_best
        assert len({(tuple(answer.ids), answer.is_finished) for answer in answers}) == len(answers)
        for finished in (True, False):
            scores = [answer.score for answer in answers if answer.is_finished == finished]
            assert scores == sorted(scores, reverse=True)
        for answer in answers:
            assert forced(model, src[row : row + 1], answer, alpha) == pytest.approx(
                answer.score, rel=1e-4
            )
            assert len(answer.ids) + answer.is_finished <= limits[row]


def forced(model: Transformer, src: Tensor, answer: Answer, alpha: float) -> float:
    ids = [*answer.ids, EOS_ID] if answer.is_finished else answer.ids
    tgt_out = torch.tensor([ids])
    tgt_in = torch.tensor([[BOS_ID, *ids[:-1]]])
    found = forced_scores(model, src, tgt_in, tgt_out)
    real = [token for token in ids if token != PAD_ID]
    if len(real) < len(ids):  # a model may write padding: forced scores do not count it
        return answer.score
    return float(found.sums[0] / ((5 + len(ids)) / 6) ** alpha)


@given(model=models(d_model=16), src=padded_ids(), size=st.integers(1, 4), alpha=alphas)
def test_a_sentence_gets_the_same_answer_alone_and_in_a_batch(
    model: Transformer, src: Tensor, size: int, alpha: float
) -> None:
    limits = answer_limits(src).clamp(max=12)
    together = beam_search(model, src, Beam(size, alpha, size), max_tokens=limits)
    for row, answers in enumerate(together):
        alone = src[row : row + 1, : int((src[row] != PAD_ID).sum())]
        [expected] = beam_search(
            model, alone, Beam(size, alpha, size), max_tokens=limits[row : row + 1]
        )
        assert [answer.ids for answer in answers] == [answer.ids for answer in expected]


@given(model=models(), src=padded_ids(), size=st.integers(1, 4), data=st.data())
def test_a_given_beginning_is_respected_and_scored(
    model: Transformer, src: Tensor, size: int, data: st.DataObject
) -> None:
    beginnings = [
        data.draw(st.lists(st.integers(4, 22), max_size=4), label="prefix")
        for _ in range(src.size(0))
    ]
    longest = max(map(len, beginnings))
    rows = [ids + [PAD_ID] * (longest - len(ids)) for ids in beginnings]
    prefix = torch.tensor(rows, dtype=torch.long).view(src.size(0), longest)
    limits = torch.full((src.size(0),), 12)
    found = beam_search(model, src, Beam(size), max_tokens=limits, prefix=prefix)
    for row, [answer] in enumerate(found):
        assert answer.ids[: len(beginnings[row])] == beginnings[row]
        assert forced(model, src[row : row + 1], answer, 0.6) == pytest.approx(
            answer.score, rel=1e-4
        )


@given(model=models(d_model=16), src=padded_ids(), size=st.integers(1, 4))
def test_an_ensemble_of_a_model_with_itself_is_the_model(
    model: Transformer, src: Tensor, size: int
) -> None:
    limits = answer_limits(src).clamp(max=12)
    beam = Beam(size, n_best=size)
    one = beam_search(model, src, beam, max_tokens=limits)
    three = beam_search(Ensemble([model] * 3), src, beam, max_tokens=limits)
    for expected, found in zip(one, three, strict=True):
        assert [answer.ids for answer in found] == [answer.ids for answer in expected]
        assert [a.score for a in found] == pytest.approx([a.score for a in expected], rel=1e-5)
