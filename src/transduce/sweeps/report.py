"""The report of a sweep: its table as Markdown, CSV and JSON, and pictures."""

from dataclasses import dataclass, replace
from pathlib import Path

from transduce.analysis.pictures import available
from transduce.analysis.runs import group_runs
from transduce.errors import how_to_install
from transduce.files.atomic import atomic_file
from transduce.files.errors import reporting_write_errors
from transduce.sweeps.plan import SweepPlan
from transduce.sweeps.results import SweepResults, read_results

TABLE, CSV, JSON = "results.md", "results.csv", "results.json"
CURVES, HEAT_MAP, SEARCH = "curves.png", "heat_map.png", "search.png"
MOST_CURVES = 12
"""How many rows of a search have their curves drawn: those of the file, then the best trials."""


@dataclass(frozen=True)
class SweepReport:
    """What a report says, and the files that say it."""

    results: SweepResults
    files: list[Path]
    notes: list[str]  # what it lacks


def write_report(plan: SweepPlan) -> SweepReport:
    """Write the results of all runs, as far as they have come, into the sweep's folder.

    Pictures need matplotlib; without it, a note says so.
    """
    from transduce.sweeps.reporting.markdown import write_markdown
    from transduce.sweeps.reporting.records import write_csv, write_json

    results = read_results(plan)
    notes = [] if available() else [f"no pictures: {how_to_install('plot')}"]
    pictures = _draw(results) if available() else {}
    texts = {
        TABLE: write_markdown(results, pictures, notes),
        CSV: write_csv(results),
        JSON: write_json(results),
    }
    for name, text in texts.items():
        path = plan.folder / name
        with reporting_write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(path) as making:
                making.write_text(text, encoding="utf-8")
    return SweepReport(results, [plan.folder / name for name in (*texts, *pictures)], notes)


def _draw(results: SweepResults) -> dict[str, str]:
    """Draw what there is, and return captions by the names of the files."""
    from transduce.analysis.overlaid_curves import draw_overlaid
    from transduce.sweeps.reporting.heat_map import draw_heat_map, is_two_dimensional
    from transduce.sweeps.reporting.search_picture import draw_search

    drawn = {}
    is_search = results.plan.file.search is not None
    rows = results.rows[:MOST_CURVES] if is_search else results.rows
    first = [next((run.run for run in row.runs if run.run), None) for row in rows]
    runs = [
        replace(run, name=row.name)
        for run, row in zip(first, rows, strict=True)
        if run is not None and run.scores
    ]
    if runs:
        results.plan.folder.mkdir(parents=True, exist_ok=True)
        draw_overlaid(group_runs(runs), results.plan.folder / CURVES)
        drawn[CURVES] = "scores on the development set, of the first seed of each row"
    if is_search and draw_search(results, results.plan.folder / SEARCH):
        drawn[SEARCH] = "dev scores of the trials, by their number and by each searched setting"
    if is_two_dimensional(results) and draw_heat_map(results, results.plan.folder / HEAT_MAP):
        drawn[HEAT_MAP] = "mean scores on the grid"
    return drawn
