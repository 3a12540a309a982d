"""The scores of a task that has its own instead of BLEU, with intervals and paired tests.

Both are a bootstrap: 1,000 test sets sampled with replacement from the given one, the same for all
systems.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from transduce.errors import InputError
from transduce.evaluation.report import (
    BUCKETS,
    RESAMPLES,
    Comparison,
    EvaluationReport,
    IntervalScore,
    LengthBucket,
)
from transduce.evaluation.scoring import ComparedTexts, Evaluation, check_same_length
from transduce.tasks.base import AdditiveMetric, Task

SEED = 12345
MAX_DRAWN = 1 << 24
"""Lines that are drawn at a time."""

Counts = NDArray[np.float64]
"""What is summed, for every line: [N, c]."""
System = tuple[str, Sequence[str]]
"""The name of a system, and what it wrote."""


def score_by_metric(
    task: Task, systems: Sequence[System], texts: ComparedTexts, *, baseline: System | None = None
) -> Evaluation:
    """Score systems by the metric of their task; compare all with the baseline, or with the first.

    Lengths are those of the sources in words, or of the references where there are none.
    """
    if len(texts.references) > 1:
        raise InputError(f"the task {task.name} is scored with one reference a line, not several")
    [references] = texts.references
    metric = task.metric(references)
    assert isinstance(metric, AdditiveMetric), f"{task.name} has scores of its own"
    tested = [baseline, *systems] if baseline else list(systems)
    scored = [_Scored(name, written, references, metric) for name, written in tested]
    reports = [one.report(None if one is scored[0] else scored[0]) for one in scored]
    lengths = (
        [metric.length(reference) for reference in references]
        if texts.sources is None
        else [len(source.split()) for source in texts.sources]
    )
    first, *others = (
        Evaluation(
            hypotheses=tuple(one.written),
            metric=None,
            report=report,
            paper=None,
            no_paper="",
            measured="reference" if texts.sources is None else "source",
            buckets=one.by_length(np.array(lengths)),
            system=one.name,
            baseline=scored[0].name if len(scored) > 1 else None,
            baseline_report=reports[0] if baseline else None,
        )
        for one, report in list(zip(scored, reports, strict=True))[-len(systems) :]
    )
    return replace(first, others=tuple(others))


class _Scored:
    """One system, with what is summed of every line."""

    def __init__(
        self, name: str, written: Sequence[str], references: Sequence[str], metric: AdditiveMetric
    ) -> None:
        check_same_length(name, written, references)
        self.name, self.written, self._metric = name, written, metric
        rows = list(map(metric.counts, written, references))
        self._counts: Counts = np.array(rows, dtype=np.float64)  # [N, c]
        self._resampled = [metric.scores(sums) for sums in _resampled_sums(self._counts)]

    def report(self, baseline: "_Scored | None") -> EvaluationReport:
        scores = self._metric.scores(self._counts.sum(axis=0).tolist())
        found = tuple(self._interval(name, score) for name, score in scores.items())
        compared = () if baseline is None else map(self._compared, scores, [baseline] * len(scores))
        return EvaluationReport(len(self.written), found, tuple(compared))

    def by_length(self, lengths: NDArray[np.int64]) -> tuple[LengthBucket, ...]:
        buckets = []
        for shortest, longest in (*BUCKETS["words"], (0, 40)):
            chosen = (lengths >= shortest) & (lengths <= (longest or np.inf))
            sums = self._counts[chosen].sum(axis=0).tolist()
            score = self._metric.as_score(sums) if chosen.any() else None
            buckets.append(LengthBucket(shortest, longest, int(chosen.sum()), score))
        return tuple(buckets)

    def _interval(self, name: str, score: float) -> IntervalScore:
        drawn = np.array([one[name] for one in self._resampled])
        low, high = np.percentile(drawn, [2.5, 97.5])
        margin = float(high - low) / 2
        signature = f"{self._metric.signature_of(name)}|bs:{RESAMPLES}|seed:{SEED}"
        return IntervalScore(name, score, float(drawn.mean()), margin, signature)

    def _compared(self, name: str, baseline: "_Scored") -> Comparison:
        ours, other = (
            one._metric.scores(one._counts.sum(axis=0).tolist())[name] for one in (self, baseline)
        )
        pairs = zip(self._resampled, baseline._resampled, strict=True)
        differences = np.array([mine[name] - its[name] for mine, its in pairs])
        # Two-sided, as sacreBLEU has it: how often chance alone makes such a difference.
        exceeded = np.abs(differences - differences.mean()) >= abs(ours - other)
        p_value = float(exceeded.sum() + 1) / (RESAMPLES + 1)
        return Comparison(name, other, ours - other, p_value if ours != other else None)


def _resampled_sums(counts: Counts) -> list[list[float]]:
    """Return the sums over lines of each sampled test set."""
    random = np.random.default_rng(SEED)
    at_once = max(1, MAX_DRAWN // len(counts))
    sums: list[list[float]] = []
    while len(sums) < RESAMPLES:
        size = (min(at_once, RESAMPLES - len(sums)), len(counts))
        drawn = random.integers(len(counts), size=size)
        times = np.stack([np.bincount(row, minlength=len(counts)) for row in drawn])
        sums += (times @ counts).tolist()
    return sums
