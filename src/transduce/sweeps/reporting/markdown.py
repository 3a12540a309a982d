"""The results of a sweep as Markdown: a table like Table 3, how to read it, and every run."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from transduce.errors import counted
from transduce.evaluation.paired_bootstrap import RESAMPLES, PairedDifference
from transduce.sweeps.file import DEV
from transduce.sweeps.reporting.agreement import agreement_with_paper, is_of_paper
from transduce.sweeps.reporting.columns import settings_columns
from transduce.sweeps.reporting.spread import RankCorrelation, Spread
from transduce.sweeps.reporting.table3 import TABLE_3
from transduce.sweeps.results import RowResult, RunResult, SweepResults, score_on

Columns = dict[str, list[str]]


def write_markdown(results: SweepResults, pictures: Mapping[str, str], notes: Sequence[str]) -> str:
    """Write all that a report says; `pictures` are files beside it, with their captions."""
    parts = [
        f"# {results.plan.folder.resolve().name}",
        _summary(results),
        _table(_columns(results)),
        "\n".join(f"- {line}" for line in _explanations(results)),
        *(f"![{caption}]({name})" for name, caption in pictures.items()),
        "## Runs",
        _table(_run_columns(results)),
    ]
    remarks = [*results.notes, *notes]
    if remarks:
        parts += ["## Notes", "\n".join(f"- {_escaped(line)}" for line in remarks)]
    return "\n\n".join(parts) + "\n"


def _summary(results: SweepResults) -> str:
    states = [run.status for run in results.runs]
    done = f"{states.count('finished')} of {counted(len(states), 'run')} finished"
    others = [
        f"{states.count(state)} {state}"
        for state in ("unfinished", "pruned", "failed", "not begun")
        if state in states
    ]
    budget = results.plan.file.budget
    given = budget.model_dump(exclude_none=True) if budget else {}
    limits = [f"{_number(value)} {name}" for name, value in given.items()]
    return (
        "; ".join([done, *others])
        + f". Base: {results.plan.file.base}."
        + (f" Budget of each run: {limits[0]}." if limits else "")
    )


def setting_cells(results: SweepResults) -> Columns:
    """Return the settings in which rows differ, by their headings."""
    rows = results.rows
    return settings_columns([row.config for row in rows], rows.index(results.base))


def score_cells(results: SweepResults) -> Columns:
    """Return the scores of all rows by their headings; the best of a column is in asterisks."""
    rows = results.rows
    columns = {"PPL": _with_best([row.perplexity for row in rows], higher_is_better=False)}
    for name in results.sets:
        metric = results.metrics(name)[0]
        columns[f"{metric.name}, {name}"] = _with_best(
            [row.score(name) for row in rows], higher_is_better=metric.higher_is_better
        )
        if any(name in row.differences for row in rows):
            several = sum(name != DEV for name in results.sets) > 1
            on = f", {name}" if several else ""
            columns[f"against {results.base.name}{on}"] = [
                _difference(row.differences.get(name)) for row in rows
            ]
    return columns


def state_cells(results: SweepResults) -> Columns:
    """Return which trials of a search were stopped early; empty if none was."""
    cells = ["pruned" if row.runs[0].status == "pruned" else "" for row in results.rows]
    return {"state": cells} if any(cells) else {}


def _columns(results: SweepResults) -> Columns:
    rows = results.rows
    columns: Columns = {}
    if is_of_paper(results):
        columns[""] = [_group(row) for row in rows]
    columns["row"] = [_escaped(row.name) for row in rows]
    columns |= setting_cells(results)
    columns["steps"] = [_mean_steps(row) for row in rows]
    columns |= score_cells(results) | state_cells(results)
    columns["params"] = [_parameters(row.parameters) for row in rows]
    columns["seeds"] = [seed_cell(row) for row in rows]
    if is_of_paper(results):
        known = [TABLE_3.get(row.name) for row in rows]
        columns["paper PPL"] = [f"{row.perplexity:.2f}" if row else "" for row in known]
        columns["paper BLEU"] = [f"{row.bleu:.1f}" if row else "" for row in known]
    return columns


def _group(row: RowResult) -> str:
    known = TABLE_3.get(row.name)
    return f"({known.group})" if known and known.group else ""


def _with_best(spreads: Sequence[Spread | None], *, higher_is_better: bool) -> list[str]:
    """Write scores with their deviation; the best is bold."""
    means = [found.mean for found in spreads if found and math.isfinite(found.mean)]
    best = (max if higher_is_better else min)(means, default=None)
    return [
        "" if found is None else _spread(found, is_best=len(means) > 1 and found.mean == best)
        for found in spreads
    ]


def _spread(found: Spread, *, is_best: bool = False) -> str:
    text = _score(found.mean)
    deviation = "" if found.deviation is None else f" ± {_score(found.deviation)}"
    return (f"**{text}**" if is_best else text) + deviation


def _score(value: float) -> str:
    return f"{value:.2f}" if value < 1e6 else f"{value:.2e}"


def _difference(found: PairedDifference | None) -> str:
    if found is None:
        return ""
    chance = "" if found.p_value is None else f" (p = {found.p_value:.3f})"
    return f"{found.difference:+.2f}{chance}".replace("-", "−")


def seed_cell(row: RowResult) -> str:
    """Say how many seeds of a row are finished."""
    done = len(row.finished)
    return str(done) if done == len(row.runs) else f"{done} of {len(row.runs)}"


def _mean_steps(row: RowResult) -> str:
    """Write the steps of a row's runs, the mean over its seeds."""
    made = [run.steps for run in row.finished]
    return f"{sum(made) / len(made):,.0f}" if made else ""


def _parameters(count: int | None) -> str:
    if count is None:
        return ""
    return f"{count / 1e6:.{1 if count >= 1e7 else 2}f}M"


def _explanations(results: SweepResults) -> Iterator[str]:
    yield (
        "PPL: perplexity per subword on the development set, of the weights that each run keeps. "
        "A blank setting is that of the base. Only finished runs count; the best mean is bold."
    )
    if any(len(row.finished) > 1 for row in results.rows):
        yield "± is the standard deviation over the seeds of a row."
    yield from _search(results)
    tested = [name for name in results.sets if name != DEV]
    if tested:
        file = results.plan.file
        yield f"Test sets are translated with beam {file.beam}, α {file.alpha}."
    for name in results.sets:
        greedy = " by greedy search" if name == DEV else ""
        for metric in results.metrics(name):
            yield f"{metric.name} on {name}{greedy}: `{metric.signature}`"
    differences = [found for row in results.rows for found in row.differences.values()]
    if any(found.p_value is not None for found in differences):
        yield (
            f"p: two-sided paired bootstrap of the means over seeds, {RESAMPLES:,} resamples of "
            "the test sentences. It covers the choice of sentences, not the chance of training, "
            "which only several seeds show."
        )
    yield from _noise(results)
    yield from _correlations(results)


def _search(results: SweepResults) -> Iterator[str]:
    """Say how the trials were drawn and how their scores are to be read."""
    search = results.plan.file.search
    if search is None:
        return
    by = "dev loss" if search.by == "loss" else "dev score"
    yield (
        f"Trials of the search (sampler {search.sampler}, seed {search.seed}) are in the order of "
        f"their {by}, the best first. The best of many has been lucky too: its {by} is better than "
        "that of another seed would be. Test sets had no part in the choice."
    )
    if state_cells(results):
        yield (
            "Pruned: stopped early, because finished trials were better by then, or because "
            "training diverged. Its scores are not compared; the table of runs has the best so far."
        )


def _noise(results: SweepResults) -> Iterator[str]:
    """Say how far rows are apart by chance."""
    for name in results.sets:
        if noise := results.noise(name):
            metric = results.metrics(name)[0].name
            if noise.chance_difference < 0.005:  # as where nothing is learnt yet
                yield f"Seeds alone do not change {metric} on {name} by 0.01."
                continue
            yield (
                f"Seeds alone give {metric} on {name} a standard deviation of "
                f"{noise.deviation:.2f}, estimated with "
                f"{counted(noise.freedom, 'degree of freedom', 'degrees of freedom')}: two rows of "
                f"one seed each that differ by less than {noise.chance_difference:.2f} may be "
                "equally good."
            )
    if results.sets and results.perplexity_noise is None:
        yield "No row has several finished seeds: how much of a difference is chance is not known."


def _correlations(results: SweepResults) -> Iterator[str]:
    for column, found in agreement_with_paper(results).items():
        yield (
            f"Spearman's rank correlation of our {column} with the paper's, over {found.rows} "
            f"rows: ρ = {found.rho:.2f}{_interval(found)}."
        )


def _interval(found: RankCorrelation) -> str:
    if found.interval is None or found.noise is None:
        return "; its noise is not known without several seeds"
    low, high = found.interval
    return (
        f" ({low:.2f} to {high:.2f} in 95 % of draws of our scores with the noise of seeds, whose "
        f"standard deviation is {found.noise.deviation:.2f}; with that noise, the paper's column "
        f"would have {found.ceiling:.2f} with itself)"
    )


def _run_columns(results: SweepResults) -> Columns:
    runs = results.runs
    columns = {
        "row": [_escaped(run.planned.variation) for run in runs],
        "seed": [str(run.planned.seed) for run in runs],
        "state": [_escaped(run.state) for run in runs],
        "steps": [f"{run.steps:,}" if run.run else "" for run in runs],
        "tokens": [f"{run.tokens:,}" if run.run else "" for run in runs],
        "dev loss": _cells(runs, lambda run: f"{run.dev.loss:.4f}" if run.dev else ""),
        "PPL": _cells(runs, lambda run: _score(run.dev.perplexity) if run.dev else ""),
    }
    for name in [*(test.name for test in results.plan.file.test), DEV]:
        scores = [score_on(run, name) for run in runs]
        if heading := next((score.name for score in scores if score), None):
            columns[f"{heading}, {name}"] = [f"{s.score:.2f}" if s else "" for s in scores]
    minutes = _cells(runs, lambda run: "" if run.minutes is None else f"{run.minutes:.1f}")
    return columns | {"minutes": minutes}


def _cells(runs: Sequence[RunResult], text: Callable[[RunResult], str]) -> list[str]:
    return [text(run) for run in runs]


def _table(columns: Columns) -> str:
    """Write columns as a table; those that are blank in every row are left out."""
    kept = {heading: cells for heading, cells in columns.items() if any(cells)}
    rows = [[*kept], ["---"] * len(kept), *zip(*kept.values(), strict=True)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value < 1e12 and value == int(value) else f"{value:g}"


def _escaped(text: str) -> str:
    """Keep text on one line and in its cell."""
    return " ".join(text.split()).replace("|", "\\|")
