"""BLEU, chrF and TER of translations by sacreBLEU, with confidence intervals and paired tests.

Intervals and tests are sacreBLEU's own bootstrap: 1,000 test sets sampled with replacement from the
given one. Its seed is in every signature.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu.metrics.base import Metric, Signature
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from transduce.errors import InputError
from transduce.tasks.base import MetricScore
from transduce.tasks.metrics import bleu

RESAMPLES = 1000

MAX_RESAMPLED = 20_000
"""The most sentences for a bootstrap: it holds all resamples at once, 72 kB a sentence."""

BUCKETS = ((0, 10), (11, 20), (21, 30), (31, 40), (41, None))
"""Sentence lengths in words, from and to."""

TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
"""sacreBLEU's tokenizers for languages that are written without spaces, or nearly."""

LOWER_IS_BETTER = ("TER",)


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
    """Another system's score on the same sentences, and the significance of the difference."""

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
    """The scores of one system, and their comparison with another."""

    sentences: int
    scores: tuple[IntervalScore, ...]
    comparisons: tuple[Comparison, ...]  # empty without another system


def report(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    against: Sequence[str] | None = None,
    tokenize: str = "13a",
    labels: Mapping[str, str] | None = None,
) -> EvaluationReport:
    """Score whole texts, one reference a sentence; compare with another system's translations.

    `labels` go into the signatures, which have fields for `test`, a test set, and `lang`, a pair.
    """
    bleu(hypotheses, references, tokenize=tokenize)  # raises if they cannot be scored
    _check_comparable(against, references)
    metrics = {"BLEU": BLEU(tokenize=tokenize, force=True), "chrF": CHRF(), "TER": TER()}
    if len(references) > MAX_RESAMPLED:
        plain = _without_resampling(metrics, hypotheses, references, labels or {})
        return EvaluationReport(len(references), plain, ())
    # The first system is the baseline: the second is tested against it.
    systems = [("ours", hypotheses)] if against is None else [("", against), ("ours", hypotheses)]
    test = PairedTest(systems, metrics, [references], test_type="bs", n_samples=RESAMPLES)
    signatures, results = test()
    found: Any = results  # by the metric's name, a list with one result for each system
    return EvaluationReport(
        len(references),
        tuple(
            _score(name, found[name][-1], _labelled(signature, labels or {}))
            for name, signature in signatures.items()
        ),
        () if against is None else tuple(_comparison(name, *found[name]) for name in signatures),
    )


def bleu_by_length(
    hypotheses: Sequence[str],
    references: Sequence[str],
    measured: Sequence[str],
    *,
    tokenize: str = "13a",
) -> tuple[LengthBucket, ...]:
    """Score sentences of similar length together.

    Lengths are words between spaces in `measured`: the sources, or the references themselves.
    """
    lengths = [len(text.split()) for text in measured]
    buckets = []
    for shortest, longest in BUCKETS:
        chosen = [
            pair
            for *pair, length in zip(hypotheses, references, lengths, strict=True)
            if shortest <= length and (longest is None or length <= longest)
        ]
        score = bleu(*zip(*chosen, strict=True), tokenize=tokenize) if chosen else None
        buckets.append(LengthBucket(shortest, longest, len(chosen), score))
    return tuple(buckets)


def _check_comparable(against: Sequence[str] | None, references: Sequence[str]) -> None:
    if against is None:
        return
    if len(against) != len(references):
        raise InputError(
            f"{len(against):,} translations to compare with but {len(references):,} references: "
            "a comparison needs one for each"
        )
    if len(references) > MAX_RESAMPLED:
        raise InputError(
            f"{len(references):,} sentences are too many to compare two systems on: "
            f"give at most {MAX_RESAMPLED:,}"
        )


def _without_resampling(
    metrics: Mapping[str, Metric],
    hypotheses: Sequence[str],
    references: Sequence[str],
    labels: Mapping[str, str],
) -> tuple[IntervalScore, ...]:
    scores = []
    for metric in metrics.values():
        found = metric.corpus_score(hypotheses, [references])
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
