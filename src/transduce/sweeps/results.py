"""What the runs of a sweep have reached, read from their folders, finished or not."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from transduce.analysis.runs import JOURNAL, Run, Tell, read_runs
from transduce.config.load import load_config
from transduce.config.schema import Config
from transduce.data.corpus import read_lines
from transduce.errors import InputError, TransduceError
from transduce.evaluation.paired_bootstrap import (
    PairedDifference,
    Resampled,
    paired_difference,
    resampled_scores,
)
from transduce.evaluation.scoring import check_same_length
from transduce.models.model_files import TOKENIZER
from transduce.sweeps.file import DEV
from transduce.sweeps.plan import SweepPlan, SweepRun
from transduce.sweeps.reporting.spread import SeedNoise, Spread, seed_noise, spread
from transduce.tasks.base import Metric, MetricScore
from transduce.tasks.registry import choose_metric, find_task
from transduce.text.tokenizer import Tokenizer
from transduce.training.run.events import Finished, Scored, Started, Stepped
from transduce.training.run.folder import RunFolder

Status = Literal["finished", "unfinished", "pruned", "failed", "not begun"]


@dataclass(frozen=True)
class DevResult:
    """The scores on the development set of the weights that a run keeps."""

    loss: float
    metric: MetricScore | None  # by greedy search; None: nothing was translated

    @property
    def perplexity(self) -> float:
        """The perplexity per subword."""
        return math.exp(min(self.loss, 700.0))


@dataclass(frozen=True)
class ScoredTest:
    """The score of a run on a test set."""

    metric: MetricScore
    resampled: Resampled | None = field(repr=False, compare=False)  # None: too many sentences


@dataclass(frozen=True)
class RunResult:
    """How far a run has come, and its scores."""

    planned: SweepRun
    status: Status
    run: Run | None = field(default=None, repr=False)  # None: its folder holds no run
    fault: str = ""  # why it failed, cannot be read or was stopped early
    dev: DevResult | None = None  # None: it has not been scored
    tests: dict[str, ScoredTest] = field(default_factory=dict)  # by the names of the test sets

    @property
    def steps(self) -> int:
        """The steps made so far."""
        return self.run.steps if self.run else 0

    @property
    def minutes(self) -> float | None:
        """The minutes of training and scoring so far."""
        return None if self.run is None or self.run.seconds is None else self.run.seconds / 60

    @property
    def tokens(self) -> int:
        """Source and target tokens trained on so far."""
        events = self.run.events if self.run else ()
        return next((e.tokens for e in reversed(events) if isinstance(e, Stepped)), 0)

    @property
    def parameters(self) -> int | None:
        """The parameters of the model; None: it has not been built."""
        events = self.run.events if self.run else ()
        return next((e.parameters for e in reversed(events) if isinstance(e, Started)), None)

    @property
    def state(self) -> str:
        """The status in words."""
        if self.status == "unfinished":
            return f"step {self.steps:,}"
        if self.status == "pruned":
            return f"pruned: {self.fault}"
        if self.fault:  # of a finished run: its test sets were not translated
            return f"failed: {self.fault}" if self.status == "failed" else f"trained; {self.fault}"
        return self.status


@dataclass(frozen=True)
class RowResult:
    """A row of the table: one variation with all its seeds. Scores are those of finished runs."""

    name: str
    config: Config  # settled by the first run that has begun; else as it is planned
    runs: tuple[RunResult, ...]
    differences: dict[str, PairedDifference] = field(default_factory=dict)  # by test set

    @property
    def finished(self) -> list[RunResult]:
        """The runs that are finished."""
        return [run for run in self.runs if run.status == "finished"]

    @property
    def parameters(self) -> int | None:
        """The parameters of the model; None: no run has begun."""
        return next((run.parameters for run in self.runs if run.parameters is not None), None)

    @property
    def perplexities(self) -> list[float]:
        """The perplexity on the development set, by seed."""
        return [run.dev.perplexity for run in self.finished if run.dev]

    def scores(self, name: str) -> list[float]:
        """Return the metric on a test set, or on the development set, by seed."""
        found = (score_on(run, name) for run in self.finished)
        return [metric.score for metric in found if metric is not None]

    @cached_property
    def perplexity(self) -> Spread | None:
        """The spread of the perplexity on the development set."""
        return spread(self.perplexities)

    def score(self, name: str) -> Spread | None:
        """Return the spread of the metric on a test set, or on the development set."""
        return spread(self.scores(name))


@dataclass(frozen=True)
class SweepResults:
    """All rows of a sweep, and how their scores can be read."""

    plan: SweepPlan
    rows: tuple[RowResult, ...]
    notes: tuple[str, ...] = ()  # what could not be read

    @property
    def base(self) -> RowResult:
        """The row that the others are compared with."""
        name = self.plan.file.compare_with
        return next((row for row in self.rows if row.name == name), self.rows[0])

    @property
    def runs(self) -> list[RunResult]:
        """All runs in the order of the rows."""
        return [run for row in self.rows for run in row.runs]

    @property
    def sets(self) -> list[str]:
        """The names of the sets with scores by the metric: test sets, then the development set."""
        named = [*(test.name for test in self.plan.file.test), DEV]
        return [name for name in named if any(row.scores(name) for row in self.rows)]

    def metrics(self, name: str) -> list[MetricScore]:
        """Return a score for every signature that the metric of a set has."""
        found = (score_on(run, name) for run in self.runs if run.status == "finished")
        return list({m.signature: m for m in found if m is not None}.values())

    @property
    def perplexity_noise(self) -> SeedNoise | None:
        """How much seeds vary the perplexity; None: no row has several."""
        return seed_noise([row.perplexities for row in self.rows])

    def noise(self, name: str) -> SeedNoise | None:
        """Return how much seeds vary the metric on a set; None: no row has several."""
        return seed_noise([row.scores(name) for row in self.rows])


def score_on(run: RunResult, name: str) -> MetricScore | None:
    """Return the score of a run on a test set, or on the development set."""
    if name == DEV:
        return run.dev.metric if run.dev else None
    return run.tests[name].metric if name in run.tests else None


def trials_by_score(rows: Sequence[RowResult], by: Literal["loss", "metric"]) -> list[RowResult]:
    """Return the rows of the file in its order, then the trials of a search, the best first.

    Trials that were stopped early follow those that are finished, and then all others.
    """

    def rank(row: RowResult) -> tuple[int, float]:
        [run] = row.runs
        place = {"finished": 0, "pruned": 1}.get(run.status, 2)
        cost = dev_cost(run, by)
        return place, math.inf if cost is None or place == 2 else cost

    fixed = [row for row in rows if not row.runs[0].planned.trial]
    return [*fixed, *sorted((row for row in rows if row.runs[0].planned.trial), key=rank)]


def dev_cost(run: RunResult, by: Literal["loss", "metric"]) -> float | None:
    """Return the dev loss, or the metric with its sign turned where higher is better."""
    if run.dev is None:
        return None
    metric = run.dev.metric
    if by == "loss":
        return run.dev.loss
    return None if metric is None else -metric.score if metric.higher_is_better else metric.score


def read_results(plan: SweepPlan) -> SweepResults:
    """Read all run folders that exist, score their test translations, and compare the rows."""
    notes: list[str] = []
    tests = _TestSets(plan, notes.append)
    runs: dict[str, list[RunResult]] = {}
    for planned in plan.runs:
        found = _read_run(planned, tests, notes.append)
        runs.setdefault(planned.variation, []).append(found)
    base = _base_config(plan, [run for found in runs.values() for run in found])
    rows = [RowResult(name, _config_of(found, base), tuple(found)) for name, found in runs.items()]
    if plan.file.search is not None:
        rows = trials_by_score(rows, plan.file.search.by)
    results = SweepResults(plan, tuple(rows), (*notes,))
    compared = tuple(_compared(row, results.base) for row in rows)
    return SweepResults(plan, compared, (*notes, *_incomparable(results)))


def _read_run(planned: SweepRun, tests: "_TestSets", tell: Tell) -> RunResult:
    fault = _text_of(planned.fault_file)
    if not (planned.folder / JOURNAL).exists():
        return RunResult(planned, "failed" if fault else "not begun", fault=fault)
    told: list[str] = []
    try:
        [run] = read_runs([planned.folder], told.append)
    except InputError as unreadable:
        why = told[-1].partition(" is left out: ")[2] if told else str(unreadable)
        return RunResult(planned, "failed", fault=fault or why)
    for line in told:
        tell(f"{planned.name}: {line}")
    dev = _dev_result(run)
    if planned.trial and (why := _text_of(planned.pruned_file)):
        return RunResult(planned, "pruned", run, why, dev)
    if not run.finished:
        return RunResult(planned, "failed" if fault else "unfinished", run, fault, dev)
    return RunResult(planned, "finished", run, fault, dev, dict(tests.scores(planned)))


def _text_of(path: Path) -> str:
    """Return what a file beside a run says of its end; '': there is no such file."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as unreadable:
        return f"cannot read {path}: {unreadable.strerror}"
    return " ".join(text.split()) or "not known why"


def _dev_result(run: Run) -> DevResult | None:
    """Return the scores of the weights at the end, or of the best so far."""
    end = run.events[-1] if run.finished else None
    best = next((score for score in reversed(run.scores) if score.best), None)
    if isinstance(end, Finished) and end.loss is not None:
        return DevResult(end.loss, _metric(end))
    return None if best is None else DevResult(best.loss, _metric(best))


def _metric(event: Finished | Scored) -> MetricScore | None:
    if event.metric is None or event.score is None:
        return None
    return MetricScore(event.metric, event.score, event.signature, event.higher_is_better)


class _TestSets:
    """The references of a sweep's test sets, and how translations of them are scored."""

    def __init__(self, plan: SweepPlan, tell: Tell) -> None:
        self._references: dict[str, list[str]] = {}
        self._tell = tell
        for test in plan.file.test:
            try:
                self._references[test.name] = list(read_lines(Path(test.tgt)))
            except TransduceError as unreadable:
                tell(f"{test.name} is left out: {unreadable}")
        self._tests = [test for test in plan.file.test if test.name in self._references]

    def scores(self, planned: SweepRun) -> Iterator[tuple[str, ScoredTest]]:
        """Score the translations in a run's folder, by the metric of its task."""
        for test in self._tests:
            path = planned.hypotheses_file(test)
            try:
                if path.exists():
                    yield test.name, _test_result(planned, path, self._references[test.name])
            except TransduceError as fault:
                self._tell(f"{planned.name}: {test.name} is left out: {fault}")


def cuts_words(settings: Config) -> bool:
    """Whether a run's texts are cut into words that only its tokenizer can join."""
    return "whitespace" in (settings.data.subwords, settings.data.tgt_subwords)


def _test_result(planned: SweepRun, path: Path, references: list[str]) -> ScoredTest:
    settings = load_config(planned.folder)
    if cuts_words(settings):
        # Its words are joined where they were cut.
        tokenizer = Tokenizer.load(planned.folder / TOKENIZER)
        references = [tokenizer.as_decoded(line) for line in references]
    hypotheses = list(read_lines(path))
    check_same_length(path, hypotheses, references)
    metric = choose_metric(find_task(settings.data.task), settings.data.metric, references)
    return ScoredTest(
        metric.score(hypotheses, references), _resampled(metric, hypotheses, references)
    )


def _resampled(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[str]
) -> Resampled | None:
    try:
        return resampled_scores(metric, hypotheses, references)
    except ArithmeticError:  # another package's metric, on a sample that it cannot score
        return None


def _base_config(plan: SweepPlan, runs: Sequence[RunResult]) -> Config | None:
    """Return the settings of the base as its run has settled them; None: it has not begun."""
    return next(
        (
            config
            for run in runs
            if run.planned.variation == plan.runs[0].variation and (config := _settled(run))
        ),
        None,
    )


def _config_of(runs: Sequence[RunResult], base: Config | None) -> Config:
    """Return the settings of a row; what no run has settled yet is as in the base."""
    for run in runs:
        if config := _settled(run):
            return config
    asked = runs[0].planned.request().settings()
    return Config.from_tree(asked) if base is None else base.with_changes(asked)


def _settled(run: RunResult) -> Config | None:
    if run.run is None or run.run.settings is None:
        return None
    return load_config(run.planned.folder)


def _compared(row: RowResult, base: RowResult) -> RowResult:
    """Test a row against the base on every test set that both have been scored on."""
    if row.name == base.name:
        return row
    found: dict[str, PairedDifference] = {}
    for name in dict.fromkeys(name for run in row.finished for name in run.tests):
        ours, others = row.score(name), base.score(name)
        if ours is None or others is None or not _is_one_metric([row, base], name):
            continue
        difference = ours.mean - others.mean
        own, base_own = _samples(row, name), _samples(base, name)
        found[name] = (
            paired_difference(own, base_own, difference)
            if own and base_own
            else PairedDifference(difference, None)
        )
    return replace(row, differences=found)


def _samples(row: RowResult, name: str) -> list[Resampled]:
    """Return the resampled scores of all seeds, or none if one of them has none."""
    found = [run.tests[name].resampled for run in row.finished if name in run.tests]
    known = [sample for sample in found if sample is not None]
    return known if len(known) == len(found) else []


def _is_one_metric(rows: Sequence[RowResult], name: str) -> bool:
    found = (score_on(run, name) for row in rows for run in row.finished)
    return len({(metric.name, metric.signature) for metric in found if metric}) == 1


def _budget_changes(run: RunResult) -> list[str]:
    folder = RunFolder(run.planned.folder)
    try:
        return folder.budget_changes()
    except InputError:  # `read_runs` has told that its origin is not known
        return []


def _incomparable(results: SweepResults) -> Iterator[str]:
    """Say which rows and columns cannot be compared."""
    for run in results.runs:
        if run.run is not None and (changes := _budget_changes(run)):
            yield (
                f"{run.planned.name}: its budget was changed {'; '.join(changes)}: a run that goes "
                "on past its end cannot be compared with others"
            )
    measures = [run.run.measure for run in results.runs if run.run and run.status == "finished"]
    if len({measure.dev_set for measure in measures}) > 1:
        yield "rows have different development sets: their perplexities cannot be compared"
    elif len({measure.vocabulary for measure in measures}) > 1:
        yield "rows have different vocabularies: perplexity is per subword and cannot be compared"
    for name in results.sets:
        if len(results.metrics(name)) > 1:
            yield f"scores on {name} have different signatures and cannot be compared"
