"""BLEU, chrF and TER of translations by sacreBLEU, with confidence intervals and paired tests.

Intervals and tests are sacreBLEU's own bootstrap: 1,000 test sets sampled with replacement from the
given one. Its seed is in every signature.

References are one text or several, each with a line for every sentence, as sacreBLEU has them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sacrebleu.metrics.base import Metric, Signature
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from transduce.errors import InputError, counted
from transduce.tasks.base import MetricScore
from transduce.tasks.metrics import bleu, sacrebleu_bleu
from transduce.tasks.tokenization import Tokenization
from transduce.tasks.writing import writing_of

RESAMPLES = 1000

MAX_RESAMPLED = 20_000
"""The most sentences for a bootstrap: it holds all resamples at once, 72 kB a sentence."""

LengthUnit = Literal["words", "characters"]

BUCKETS: dict[LengthUnit, tuple[tuple[int, int | None], ...]] = {
    "words": ((0, 10), (11, 20), (21, 30), (31, 40), (41, None)),
    "characters": ((0, 20), (21, 40), (41, 60), (61, 80), (81, None)),
}
"""Sentence lengths, from and to."""

LOWER_IS_BETTER = ("TER", "left out")

Texts = Sequence[str]


@dataclass(frozen=True)
class IntervalScore:
    """A score with its confidence interval, and the signature that makes it comparable."""

    name: str
    score: float
    mean: float | None  # of the resamples; None: there are too many sentences to resample
    margin: float | None  # half the width of their middle 95 %
    signature: str


@dataclass(frozen=True)
class Comparison:
    """The baseline's score on the same sentences, and the significance of the difference."""

    name: str
    other: float
    difference: float  # our score minus the other's
    p_value: float | None  # two-sided, of a paired bootstrap test; None: the scores are equal


@dataclass(frozen=True)
class LengthBucket:
    """The BLEU of sentences of similar length."""

    shortest: int
    longest: int | None  # None: no limit
    sentences: int
    bleu: MetricScore | None  # None: there are no such sentences


@dataclass(frozen=True)
class EvaluationReport:
    """The scores of one system, and their comparison with the baseline."""

    sentences: int
    scores: tuple[IntervalScore, ...]
    comparisons: tuple[Comparison, ...]  # empty for the baseline, and without one


def report(
    systems: Sequence[Texts],
    references: Sequence[Texts],
    *,
    tokenization: Tokenization,
    labels: Mapping[str, str] | None = None,
) -> tuple[EvaluationReport, ...]:
    """Score the hypotheses of each system; compare all others with the first, the baseline.

    `labels` go into the signatures, which have fields for `test`, a test set, and `lang`, a pair.
    """
    sentences = len(references[0])
    for hypotheses in systems:
        for texts in references:
            _check_lines(hypotheses, texts)
    if len(systems) > 1 and sentences > MAX_RESAMPLED:
        raise InputError(
            f"{sentences:,} sentences are too many to compare systems on: "
            f"give at most {MAX_RESAMPLED:,}"
        )
    metrics = _metrics(tokenization)
    if sentences > MAX_RESAMPLED:
        plain = _without_resampling(metrics, systems[0], references, labels or {})
        return (EvaluationReport(sentences, plain, ()),)
    named = [(str(number), hypotheses) for number, hypotheses in enumerate(systems)]
    test = PairedTest(named, metrics, references, test_type="bs", n_samples=RESAMPLES)
    signatures, found = test()
    marks = {name: _labelled(signature, labels or {}) for name, signature in signatures.items()}
    results: Any = found  # by the metric's name, a list with one result for each system
    return tuple(
        EvaluationReport(
            sentences,
            tuple(_score(name, results[name][number], mark) for name, mark in marks.items()),
            tuple(_comparison(name, results[name][0], results[name][number]) for name in marks)
            if number > 0
            else (),
        )
        for number in range(len(systems))
    )


def length_unit(measured: Texts) -> LengthUnit:
    """Return what lengths are counted in: characters where nothing separates words."""
    return "characters" if writing_of(measured).spacing == "none" else "words"


def bleu_by_length(
    hypotheses: Texts,
    references: Sequence[Texts],
    measured: Texts,
    *,
    tokenize: str = "13a",
    unit: LengthUnit = "words",
) -> tuple[LengthBucket, ...]:
    """Score sentences of similar length together.

    Lengths are those of `measured`: the sources, or the first references.
    """
    words = (text.split() for text in measured)
    lengths = [len(found) if unit == "words" else sum(map(len, found)) for found in words]
    buckets = []
    for shortest, longest in BUCKETS[unit]:
        chosen = [
            texts
            for *texts, length in zip(hypotheses, *references, lengths, strict=True)
            if shortest <= length and (longest is None or length <= longest)
        ]
        score = bleu(*zip(*chosen, strict=True), tokenize=tokenize) if chosen else None
        buckets.append(LengthBucket(shortest, longest, len(chosen), score))
    return tuple(buckets)


def _check_lines(hypotheses: Texts, references: Texts) -> None:
    if len(hypotheses) != len(references) or not references:
        raise InputError(
            f"{counted(len(hypotheses), 'translation')} "
            f"but {counted(len(references), 'reference')}: "
            "scores need one reference for each, and at least one"
        )


def _metrics(tokenization: Tokenization) -> dict[str, Metric]:
    metrics: dict[str, Metric] = {"BLEU": sacrebleu_bleu(tokenization.bleu), "chrF": CHRF()}
    if tokenization.ter is not None:
        # Characters are separated as part of the normalisation, or not at all.
        is_asian = tokenization.ter == "asian"
        metrics["TER"] = TER(normalized=is_asian, asian_support=is_asian)
    return metrics


def _without_resampling(
    metrics: Mapping[str, Metric],
    hypotheses: Texts,
    references: Sequence[Texts],
    labels: Mapping[str, str],
) -> tuple[IntervalScore, ...]:
    scores = []
    for metric in metrics.values():
        found = metric.corpus_score(hypotheses, references)
        signature = _labelled(metric.get_signature(), labels)
        scores.append(IntervalScore(found.name, float(found.score), None, None, signature))
    return tuple(scores)


def _score(name: str, ours: Any, signature: str) -> IntervalScore:
    return IntervalScore(name, float(ours.score), float(ours.mean), float(ours.ci), signature)


def _comparison(name: str, other: Any, ours: Any) -> Comparison:
    difference = float(ours.score) - float(other.score)
    # Equal scores are not tested: sacreBLEU counts the resamples that exceed the difference, so it
    # would call a system significantly different from itself.
    p_value = float(ours.p_value) if difference else None
    return Comparison(name, float(other.score), difference, p_value)


def _labelled(signature: Signature, labels: Mapping[str, str]) -> str:
    for name, value in labels.items():
        signature.update(name, value)
    return str(signature)
