"""The scores of several systems on one test set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np

from transduce.config.schema import DataConfig
from transduce.errors import InputError, counted
from transduce.evaluation.paired_bootstrap import resampled_scores
from transduce.evaluation.paper_bleu import (
    PAPER_BLEU,
    MissingMosesError,
    check_language,
    paper_bleu,
    require_sacremoses,
)
from transduce.evaluation.report import (
    EvaluationReport,
    LengthBucket,
    LengthUnit,
    bleu_by_length,
    length_unit,
    report,
)
from transduce.tasks.base import AdditiveMetric, MetricScore
from transduce.tasks.registry import choose_metric, find_task
from transduce.tasks.tokenization import Tokenization, warnings_of

NAME_LANGUAGE = "name the target language with --lang, such as --lang de"


@dataclass(frozen=True)
class NoisyScores:
    """The scores on a test set with one kind of noise."""

    noise: str
    scores: tuple[MetricScore, ...]
    losses: tuple[float, ...]  # against the clean test set: how much worse each score is


@dataclass(frozen=True)
class Evaluation:
    """All scores of one system on one test set, and those of further systems."""

    hypotheses: tuple[str, ...]
    metric: MetricScore | None  # of the model's task; None: it is in the report, or `no_metric`
    report: EvaluationReport  # which compares with the baseline
    paper: MetricScore | None  # BLEU as the paper reports it
    no_paper: str  # why there is none
    measured: Literal["source", "reference"]  # what lengths are measured on; of several, the first
    buckets: tuple[LengthBucket, ...]
    unit: LengthUnit = "words"  # of these lengths
    system: str = ""  # the model folder or the file of translations
    references: int = 1  # for each sentence
    metric_margin: float | None = None  # half the width of the middle 95 % of its resamples
    metric_parts: Mapping[str, float] = field(default_factory=dict)  # what is shown beside it
    no_metric: str = ""  # why the task's metric is missing
    no_ter: str = ""  # why TER is missing
    notes: tuple[str, ...] = ()  # what to know about these scores
    baseline: str | None = None  # what the systems are compared with; None: there is only one
    baseline_report: EvaluationReport | None = None  # None: the baseline is the first system
    others: tuple["Evaluation", ...] = ()  # of further systems
    robustness: tuple[NoisyScores, ...] = ()  # of a model, if asked for

    @property
    def systems(self) -> tuple["Evaluation", ...]:
        """All systems, this one first."""
        return (self, *self.others)


@dataclass(frozen=True)
class ComparedTexts:
    """What is compared, line by line."""

    sources: Sequence[str] | None  # None: only given translations and references
    references: Sequence[Sequence[str]]  # one text or several
    labels: Mapping[str, str] = field(default_factory=dict)  # of a public test set, for signatures


@dataclass(frozen=True)
class _ScoreByTask:
    """The score by a task's own metric."""

    score: MetricScore | None
    margin: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    missing: str = ""  # why there is none


@dataclass(frozen=True)
class Scoring:
    """How translations are scored; raises if that is impossible."""

    tokenization: Tokenization
    language: str | None  # for BLEU as in the paper
    task: str = "translation"
    metric: str | None = None  # instead of the task's own

    def __post_init__(self) -> None:
        if self.language:
            check_language(self.language)

    def by_task(self, data: DataConfig) -> Self:
        """Score also by the metric of a model's task."""
        return replace(self, task=data.task, metric=data.metric)

    def __call__(
        self,
        systems: Sequence[tuple[str, Sequence[str]]],
        texts: ComparedTexts,
        *,
        baseline: tuple[str, Sequence[str]] | None = None,
    ) -> Evaluation:
        """Score systems, each with its name; compare all with the baseline, or with the first."""
        tested = [baseline, *systems] if baseline else systems
        reports = report(
            [hypotheses for _, hypotheses in tested],
            texts.references,
            tokenization=self.tokenization,
            labels=texts.labels,
        )
        warnings = warnings_of(
            self.tokenization, [line for refs in texts.references for line in refs], dict(tested)
        )
        first, *others = (
            replace(
                self._scores(hypotheses, texts, whole),
                system=name,
                baseline=tested[0][0] if len(tested) > 1 else None,
                baseline_report=reports[0] if baseline else None,
                notes=(*self.tokenization.notes, *warnings),
            )
            for (name, hypotheses), whole in zip(systems, reports[-len(systems) :], strict=True)
        )
        return replace(first, others=tuple(others))

    def _scores(
        self, hypotheses: Sequence[str], texts: ComparedTexts, whole: EvaluationReport
    ) -> Evaluation:
        refs = texts.references
        by_task = self._by_task(hypotheses, texts, whole)
        paper, no_paper = self._paper(hypotheses, texts)
        measured = refs[0] if texts.sources is None else texts.sources
        unit = length_unit(measured)
        return Evaluation(
            hypotheses=tuple(hypotheses),
            metric=by_task.score,
            metric_margin=by_task.margin,
            metric_parts=by_task.parts,
            report=whole,
            paper=paper,
            no_paper=no_paper,
            measured="reference" if texts.sources is None else "source",
            buckets=bleu_by_length(
                hypotheses, refs, measured, tokenize=self.tokenization.bleu, unit=unit
            ),
            unit=unit,
            references=len(refs),
            no_metric=by_task.missing,
            no_ter=""
            if self.tokenization.ter
            else "it counts words, which this script has no spaces between",
        )

    def _by_task(
        self, hypotheses: Sequence[str], texts: ComparedTexts, whole: EvaluationReport
    ) -> "_ScoreByTask":
        """Score by the task's own metric unless the report has it, or say why not."""
        [first, *others] = texts.references
        metric = choose_metric(find_task(self.task), self.metric, first)
        if metric.name in {score.name for score in whole.scores}:
            return _ScoreByTask(None)
        if others:
            reason = f"{metric.name}: not computed: it takes one reference a sentence"
            return _ScoreByTask(None, missing=reason)
        score = metric.score(hypotheses, first)
        if not isinstance(metric, AdditiveMetric):
            return _ScoreByTask(score)
        drawn = resampled_scores(metric, hypotheses, first)
        margin = None
        if drawn is not None:
            low, high = np.percentile(drawn, [2.5, 97.5])
            margin = float(high - low) / 2
        parts = metric.scores(metric.sums(hypotheses, first))
        others_of = {name: value for name, value in parts.items() if name != metric.name}
        return _ScoreByTask(score, margin, others_of)

    def _paper(
        self, hypotheses: Sequence[str], texts: ComparedTexts
    ) -> tuple[MetricScore | None, str]:
        """Score as the paper does, or return why not."""
        if self.tokenization.writing.spacing == "none":
            return None, "Moses' tokenizer needs spaces between words"
        try:
            require_sacremoses()
        except MissingMosesError as lacking:
            reason = f"it{str(lacking).removeprefix(PAPER_BLEU)}"
            return None, reason if self.language else f"{reason}; then {NAME_LANGUAGE}"
        if not self.language:
            return None, NAME_LANGUAGE
        return paper_bleu(hypotheses, *texts.references, language=self.language), ""


def check_same_length(name: object, lines: Sequence[str], references: Sequence[str]) -> None:
    """Raise unless a text has as many lines as its references."""
    if len(lines) != len(references):
        raise InputError(
            f"{name} has {counted(len(lines), 'line')} "
            f"but there are {len(references):,} references: "
            "they must match line by line"
        )
