"""Error rates and ROUGE are those of their definitions, and of the libraries of the field."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.evaluation.paired_bootstrap import resampled_scores
from transduce.grammar import generate
from transduce.tasks.base import AdditiveMetric, Metric
from transduce.tasks.error_rates import (
    CharacterErrorRate,
    ExactMatch,
    WordErrorRate,
)
from transduce.tasks.pronunciation import PronunciationErrors, PronunciationTask
from transduce.tasks.registry import choose_metric, find_task
from transduce.tasks.rouge import Rouge, longest_common

words = st.lists(st.sampled_from(["a", "b", "c", "dd"]), max_size=6)
lines = st.lists(st.tuples(words.map(" ".join), words.map(" ".join)), min_size=1, max_size=4)
SENTENCES = [pair.src for pair in generate(60, seed=5)]
CHANGED = [
    " ".join(text.split()[::-1] if n % 3 else text.split()) for n, text in enumerate(SENTENCES)
]


@given(one=words, other=words)
def test_the_longest_common_sequence_is_the_longest_of_all(
    one: list[str], other: list[str]
) -> None:
    def of(tokens: Sequence[str]) -> set[tuple[str, ...]]:
        return {found for n in range(len(tokens) + 1) for found in combinations(tokens, n)}

    assert longest_common(one, other) == max(map(len, of(one) & of(other)))


def test_error_rates_by_hand() -> None:
    hypotheses, references = ["the cat sat", "", "yes"], ["the cat sat down", "no", "yes"]
    assert WordErrorRate().compute(hypotheses, references)[0] == pytest.approx(100 * 2 / 6)
    assert CharacterErrorRate().compute(hypotheses, references)[0] == pytest.approx(100 * 7 / 21)
    assert ExactMatch().compute(hypotheses, references)[0] == pytest.approx(100 / 3)
    assert WordErrorRate().compute([""], [""])[0] == 0
    assert WordErrorRate().compute(["more"], [""])[0] == 100


def test_rouge_by_hand() -> None:
    metric = Rouge()
    found = metric.scores(metric.sums(["The cat sat."], ["the cat lay, sat"]))
    assert found["ROUGE-L"] == pytest.approx(100 * 6 / 7)
    assert found["ROUGE-1"] == pytest.approx(100 * 6 / 7)
    assert found["ROUGE-2"] == pytest.approx(100 * 2 / 5)


@given(pairs=lines)
def test_word_and_character_error_rates_are_jiwers(pairs: list[tuple[str, str]]) -> None:
    jiwer: Any = pytest.importorskip("jiwer", reason="it is the oracle")
    pairs = [(ours, f"x {theirs}".strip()) for ours, theirs in pairs]  # it takes no empty reference
    hypotheses, references = ([pair[side] for pair in pairs] for side in (0, 1))
    found = WordErrorRate().compute(hypotheses, references)[0]
    assert found == pytest.approx(100 * jiwer.wer(references, hypotheses))
    found = CharacterErrorRate().compute(hypotheses, references)[0]
    assert found == pytest.approx(100 * jiwer.cer(references, hypotheses))


def test_rouge_is_that_of_rouge_score() -> None:
    library: Any = pytest.importorskip("rouge_score.rouge_scorer", reason="it is the oracle")
    scorer = library.RougeScorer(["rougeL", "rouge1", "rouge2"])
    metric = Rouge()
    for ours, theirs in [*zip(CHANGED, SENTENCES, strict=True), ("a b", ""), ("", "a"), ("", "")]:
        found = metric.scores(metric.sums([ours], [theirs]))
        expected = scorer.score(theirs, ours)
        assert list(found.values()) == pytest.approx(
            [100 * expected[name].fmeasure for name in ("rougeL", "rouge1", "rouge2")]
        )


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize(
    "metric", [ExactMatch(), WordErrorRate(), CharacterErrorRate(), Rouge()], ids=lambda m: m.name
)
def test_resamples_of_sums_are_those_of_whole_scores(metric: AdditiveMetric) -> None:
    class Whole(Metric):
        """The same metric, asked for the score of every resample."""

        name = metric.name

        def compute(
            self, hypotheses: Sequence[str], references: Sequence[str]
        ) -> tuple[float, str]:
            return metric.compute(hypotheses, references)

    few, changed = SENTENCES[:6], CHANGED[:6]
    fast, slow = (resampled_scores(one, changed, few) for one in (metric, Whole()))
    assert fast is not None
    assert slow is not None
    assert fast.std() > 0
    assert fast == pytest.approx(slow)


def test_a_word_is_compared_with_its_nearest_pronunciation() -> None:
    metric = PronunciationErrors()
    references = ["T AH M EY T OW | T AH M AA T OW", "K AE T", "B IY"]
    sums = metric.sums(["T AH M AA T OW", "K AH T S", ""], references)
    found = metric.scores(sums)
    assert found["words wrong"] == pytest.approx(100 * 2 / 3)
    assert found["phonemes wrong"] == pytest.approx(100 * (0 + 2 + 2) / (6 + 3 + 2))
    assert not metric.higher_is_better
    task = PronunciationTask()
    assert task.to_target(references[0]) == "T AH M EY T OW"
    assert task.target_form == "pronunciation"


@pytest.mark.parametrize("name", ["exact", "wer", "cer", "bleu", "chrf", "rouge"])
def test_every_metric_of_the_settings_is_found(name: str) -> None:
    metric = choose_metric(find_task("generic"), name, SENTENCES)
    perfect, worse = (metric.score(texts, SENTENCES) for texts in (SENTENCES, CHANGED))
    if metric.higher_is_better:
        assert perfect.score == pytest.approx(100)
        assert worse.score < perfect.score
    else:
        assert perfect.score == 0
        assert worse.score > 0
    assert perfect.signature == worse.signature
