"""The results of a sweep as JSON and CSV."""

import csv
import io
import json
import math
from dataclasses import asdict
from typing import Any

from transduce.sweeps.file import DEV
from transduce.sweeps.reporting.agreement import agreement_with_paper, is_of_paper
from transduce.sweeps.reporting.columns import settings_columns
from transduce.sweeps.reporting.spread import Spread
from transduce.sweeps.reporting.table3 import TABLE_3
from transduce.sweeps.results import RowResult, RunResult, SweepResults, score_on
from transduce.tasks.base import MetricScore

Record = dict[str, Any]


def write_json(results: SweepResults) -> str:
    """Write every row and every run, with all their scores."""
    file = results.plan.file
    tree = {
        "base": file.base,
        "budget": file.budget.model_dump(exclude_none=True) if file.budget else None,
        "compared_with": results.base.name,
        "search": file.search.model_dump(mode="json") if file.search else None,
        "rows": [_row_record(results, row) for row in results.rows],
        "runs": [_run_record(results, run) for run in results.runs],
        "rank_correlation_with_paper": {
            column: asdict(found) for column, found in agreement_with_paper(results).items()
        },
        "notes": list(results.notes),
    }
    return json.dumps(_finite(tree), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write_csv(results: SweepResults) -> str:
    """Write a line for each row: settings, scores with their spread over seeds, p-values."""
    rows = results.rows
    settings = settings_columns([row.config for row in rows], rows.index(results.base))
    records = [
        {"row": row.name}
        | {heading: cells[place] for heading, cells in settings.items()}
        | _flat(_row_record(results, row))
        for place, row in enumerate(rows)
    ]
    headings = list(dict.fromkeys(heading for record in records for heading in record))
    text = io.StringIO()
    table = csv.DictWriter(text, headings, restval="", lineterminator="\n")
    table.writeheader()
    table.writerows(_finite(records))
    return text.getvalue()


def _row_record(results: SweepResults, row: RowResult) -> Record:
    known = TABLE_3.get(row.name) if is_of_paper(results) else None
    return {
        "row": row.name,
        "parameters": row.parameters,
        "seeds": len(row.runs),
        "finished": len(row.finished),
        "steps": _mean([run.steps for run in row.finished]),
        "tokens": _mean([run.tokens for run in row.finished]),
        "dev_perplexity": _spread_record(row.perplexity),
        **{
            f"{'' if name == DEV else 'test_'}{name}": _set_record(results, row, name)
            for name in results.sets
        },
        "paper": None if known is None else asdict(known),
        "minutes": _mean([run.minutes for run in row.finished if run.minutes is not None]),
    }


def _set_record(results: SweepResults, row: RowResult, name: str) -> Record | None:
    spread = _spread_record(row.score(name))
    if spread is None:
        return None
    metric = results.metrics(name)[0]
    difference = row.differences.get(name)
    return {
        "metric": metric.name,
        **spread,
        "difference": difference.difference if difference else None,
        "p_value": difference.p_value if difference else None,
    }


def _run_record(results: SweepResults, run: RunResult) -> Record:
    tests = results.plan.file.test
    return {
        "row": run.planned.variation,
        "seed": run.planned.seed,
        "folder": run.planned.folder.relative_to(results.plan.folder).as_posix(),
        "status": run.status,
        "fault": run.fault or None,
        "grid": run.planned.grid,
        "trial": run.planned.trial,
        "steps": run.steps,
        "tokens": run.tokens,
        "parameters": run.parameters,
        "dev_loss": run.dev.loss if run.dev else None,
        "dev_perplexity": run.dev.perplexity if run.dev else None,
        "scores": {
            name: _metric_record(found)
            for name in [*(test.name for test in tests), DEV]
            if (found := score_on(run, name))
        },
        "minutes": run.minutes,
    }


def _metric_record(found: MetricScore) -> Record:
    return {"metric": found.name, "score": found.score, "signature": found.signature}


def _spread_record(found: Spread | None) -> Record | None:
    return None if found is None else asdict(found)


def _mean(values: list[float] | list[int]) -> float | None:
    return sum(values) / len(values) if values else None


def _flat(record: Record, above: str = "") -> Record:
    """Name nested values by their path, `dev_perplexity.mean`; None is left out."""
    flat: Record = {}
    for name, value in record.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{above}{name}.")
        elif value is not None:
            flat[f"{above}{name}"] = value
    return flat


def _finite(tree: Any) -> Any:
    """Replace numbers that are not finite by None: JSON has none."""
    if isinstance(tree, dict):
        return {name: _finite(value) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_finite(value) for value in tree]
    return None if isinstance(tree, float) and not math.isfinite(tree) else tree
