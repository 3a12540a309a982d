"""The tables of `transduce evaluate`: of one system, or of several side by side."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from transduce.errors import counted
from transduce.evaluation.paper_bleu import CONVENTION, PAPER_BLEU
from transduce.evaluation.report import LOWER_IS_BETTER, MAX_RESAMPLED, RESAMPLES

if TYPE_CHECKING:
    from transduce.evaluation.report import Comparison, IntervalScore, LengthBucket
    from transduce.evaluation.scoring import Evaluation


def show(result: "Evaluation") -> None:
    """Print the scores, those by length, and what they depend on."""
    console = Console(highlight=False, markup=False, emoji=False)
    several = bool(result.others)
    console.print(_systems_table(result) if several else _scores_table(result))
    console.print()
    console.print(_systems_by_length(result) if several else _lengths_table(result))
    console.print()
    if result.robustness:
        console.print(_robustness_table(result))
        console.print("in UPPER CASE and without final punctuation, the references are so too")
        console.print()
    for line in _footnotes(result):
        console.print(line, soft_wrap=True)  # a signature must stay on one line to be copied


def _scores_table(result: "Evaluation") -> Table:
    """One system, a row for each metric."""
    headings = ["score", "95 %"]
    if result.report.comparisons:
        headings += ["other", "difference", "p"]
    table = _table(_size(result), *headings)
    others = {comparison.name: comparison for comparison in result.report.comparisons}
    for score in result.report.scores:
        cells = [score.name, f"{score.score:.2f}", _interval(score)]
        if other := others.get(score.name):
            cells += [f"{other.other:.2f}", f"{other.difference:+.2f}", _p_value(other)]
        table.add_row(*cells)
    if result.metric:
        table.add_row(*_cells_of_task(result))
        for name, value in result.metric_parts.items():
            table.add_row(name, f"{value:.2f}")
    if result.paper:
        table.add_row(PAPER_BLEU, f"{result.paper.score:.2f}")
    return table


def _cells_of_task(result: "Evaluation") -> list[str]:
    """Return the name, score and confidence interval of the task's own metric."""
    assert result.metric is not None
    margin = "" if result.metric_margin is None else f"± {result.metric_margin:.2f}"
    return [result.metric.name, f"{result.metric.score:.2f}", margin]


def _systems_table(result: "Evaluation") -> Table:
    """Several systems, a block for each metric."""
    table = _table(_size(result), "score", "95 %", "difference", "p")
    reports = [(system.system, system.report) for system in result.systems]
    if result.baseline_report:
        reports.insert(0, (result.baseline or "", result.baseline_report))
    for number, score in enumerate(result.report.scores):
        table.add_row(score.name)
        for name, found in reports:
            ours, compared = found.scores[number], found.comparisons[number : number + 1]
            cells = [f"{compared[0].difference:+.2f}", _p_value(compared[0])] if compared else []
            table.add_row(
                f"  {name}", f"{ours.score:.2f}", _interval(ours), *(cells or ["baseline"])
            )
    for name in ("metric", "paper"):
        if found := getattr(result, name):
            table.add_row(found.name)
            for system in result.systems:
                table.add_row(f"  {system.system}", f"{getattr(system, name).score:.2f}")
    return table


def _lengths_table(result: "Evaluation") -> Table:
    table = _table(_measured(result), "sentences", _name_of_buckets(result))
    for bucket in result.buckets:
        score = "" if bucket.bleu is None else f"{bucket.bleu.score:.2f}"
        table.add_row(_range(bucket), f"{bucket.sentences:,}", score)
    return table


def _systems_by_length(result: "Evaluation") -> Table:
    table = _table(_measured(result), *map(_range, result.buckets))
    table.add_row("sentences", *(f"{bucket.sentences:,}" for bucket in result.buckets))
    table.add_row(_name_of_buckets(result))
    for system in result.systems:
        scores = ("" if b.bleu is None else f"{b.bleu.score:.2f}" for b in system.buckets)
        table.add_row(f"  {system.system}", *scores)
    return table


def _robustness_table(result: "Evaluation") -> Table:
    """The same test set with each kind of noise, each score with its loss."""
    names = [score.name for score in result.robustness[0].scores]
    table = _table("noise", *(heading for name in names for heading in (name, "loss")))
    for row in result.robustness:
        cells = []
        for score, loss in zip(row.scores, row.losses, strict=True):
            cells += [f"{score.score:.2f}", "" if row is result.robustness[0] else f"{loss:.2f}"]
        table.add_row(row.noise, *cells)
    return table


def _footnotes(result: "Evaluation") -> Iterator[str]:
    if result.report.scores[0].margin is None:
        yield f"95 %: not computed for over {MAX_RESAMPLED:,} sentences"
    else:
        yield f"95 %: mean ± half the width of the confidence interval, of {RESAMPLES:,} resamples"
    if result.baseline:
        yield f"p: of a paired bootstrap test with {RESAMPLES:,} resamples; –: no difference"
    yield _direction(result)
    if result.no_ter:
        yield f"TER: not computed: {result.no_ter}"
    if result.no_metric:
        yield result.no_metric
    if result.paper is None and result.no_paper:
        yield f"{PAPER_BLEU}: not computed: {result.no_paper}"
    elif result.paper is not None:
        yield f"{PAPER_BLEU}: {CONVENTION}"
    yield ""
    if result.metric:
        yield f"{result.metric.name} {result.metric.signature}"
    for score in result.report.scores:
        yield f"{score.name} {score.signature}"
    by_length = next(bucket.bleu for bucket in result.buckets if bucket.bleu)
    yield f"{by_length.name} by length {by_length.signature}"
    if result.paper:
        yield f"{PAPER_BLEU} {result.paper.signature}"


def _direction(result: "Evaluation") -> str:
    """Say which scores are better if they are lower."""
    names = {score.name for score in result.report.scores}
    errors = [name for name in LOWER_IS_BETTER if name in names]
    if result.metric and not result.metric.higher_is_better:
        errors += [result.metric.name, *result.metric_parts]
    return f"higher is better, except for {', '.join(errors)}" if errors else "higher is better"


def _name_of_buckets(result: "Evaluation") -> str:
    return next(bucket.bleu.name for bucket in result.buckets if bucket.bleu)


def _size(result: "Evaluation") -> str:
    sentences = counted(result.report.sentences, "sentence")
    return sentences if result.references == 1 else f"{sentences}, {result.references} references"


def _measured(result: "Evaluation") -> str:
    is_first = result.references > 1 and result.measured == "reference"
    return f"{result.unit} in the {'first ' if is_first else ''}{result.measured}"


def _interval(score: "IntervalScore") -> str:
    return "" if score.margin is None else f"{score.mean:.2f} ± {score.margin:.2f}"


def _p_value(comparison: "Comparison") -> str:
    return "–" if comparison.p_value is None else f"{comparison.p_value:.3f}"


def _range(bucket: "LengthBucket") -> str:
    if bucket.longest is None:
        return f"{bucket.shortest} or more"
    return f"{bucket.shortest}–{bucket.longest}"


def _table(first: str, *others: str) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, overflow="fold")
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    return table
