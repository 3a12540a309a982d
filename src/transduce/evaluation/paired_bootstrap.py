"""The paired bootstrap for settings with several seeds each.

Test sets are drawn with replacement from the sentences of the given one, the same for all runs. In
each, a setting's score is the mean over its seeds, so settings may have different numbers of seeds.
The p-value says how often the difference of two settings would be this large if they were equally
good (Koehn 2004; two-sided, with the differences centred). The seeds stay as they are: the test
covers the choice of sentences, and not the chance of training.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from transduce.tasks.base import AdditiveMetric, Metric
from transduce.tasks.metrics import Bleu, sacrebleu_bleu

RESAMPLES = 1000
SEED = 12345
MAX_RESAMPLED = 20_000
"""The most sentences for a bootstrap, which holds all resamples at once."""

Resampled = NDArray[np.float64]
"""The scores of one run on each resample."""


@dataclass(frozen=True)
class PairedDifference:
    """The difference of two settings, and its significance."""

    difference: float  # the mean over seeds of ours minus that of the other
    p_value: float | None  # None: the scores are equal, or were not resampled


def resampled_scores(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[str]
) -> Resampled | None:
    """Score the resamples of a test set; None: it has too many sentences.

    For test sets of one length the resamples are the same.
    """
    if len(references) > MAX_RESAMPLED:
        return None
    drawn = np.random.default_rng(SEED).choice(len(references), (RESAMPLES, len(references)))
    if type(metric) is Bleu:
        return _resampled_bleu(metric, hypotheses, references, drawn)
    if isinstance(metric, AdditiveMetric):
        counts = np.array(list(map(metric.counts, hypotheses, references)))
        sums = (counts[places].sum(axis=0).tolist() for places in drawn)
        return np.array([metric.scores(summed)[metric.name] for summed in sums], dtype=np.float64)
    scores = [
        metric.compute([hypotheses[i] for i in places], [references[i] for i in places])[0]
        for places in drawn.tolist()
    ]
    return np.array(scores, dtype=np.float64)


def paired_difference(
    ours: Sequence[Resampled], others: Sequence[Resampled], difference: float
) -> PairedDifference:
    """Test a difference of means over seeds by the scores of each run on the same resamples."""
    if not difference:
        return PairedDifference(difference, None)
    drawn = np.mean(ours, axis=0) - np.mean(others, axis=0)
    exceeding = int(np.sum(np.abs(drawn - drawn.mean()) >= abs(difference)))
    return PairedDifference(difference, (exceeding + 1) / (len(drawn) + 1))


def _resampled_bleu(
    metric: Bleu, hypotheses: Sequence[str], references: Sequence[str], drawn: NDArray[np.int64]
) -> Resampled:
    """Score resamples by the n-gram counts of their sentences, which BLEU adds up."""
    bleu = sacrebleu_bleu(metric.tokenize)
    counts = np.array(
        [
            _counts(bleu, hypothesis, reference)
            for hypothesis, reference in zip(hypotheses, references, strict=True)
        ]
    )
    sums = [counts[places].sum(axis=0).tolist() for places in drawn]
    return np.array([_bleu_of(bleu, summed) for summed in sums], dtype=np.float64)


def _counts(bleu: BLEU, hypothesis: str, reference: str) -> list[int]:
    """Return the n-grams that match, those of the hypothesis, and the two lengths."""
    found = bleu.corpus_score([hypothesis], [[reference]])
    return [*found.counts, *found.totals, int(found.sys_len), int(found.ref_len)]


def _bleu_of(bleu: BLEU, counts: list[int]) -> float:
    order = bleu.max_ngram_order
    found = BLEU.compute_bleu(
        correct=counts[:order],
        total=counts[order : 2 * order],
        sys_len=counts[-2],
        ref_len=counts[-1],
        smooth_method=bleu.smooth_method,
        smooth_value=bleu.smooth_value,
        effective_order=bleu.effective_order,
        max_ngram_order=order,
    )
    return float(found.score)
