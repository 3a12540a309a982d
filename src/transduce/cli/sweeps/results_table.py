"""The table of a sweep's results on the terminal."""

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from transduce.sweeps.reporting.markdown import (
    score_cells,
    seed_cell,
    setting_cells,
    state_cells,
)

if TYPE_CHECKING:
    from transduce.sweeps.results import SweepResults

Columns = dict[str, list[str]]


def print_results(results: "SweepResults") -> None:
    """Print a line for each row: what differs from the base, as far as there is room, and scores.

    The rest, and how to read it, is in the files of the report.
    """
    console = Console(highlight=False, markup=False, emoji=False)
    names = {"row": [row.name for row in results.rows]}
    scores, seeds = score_cells(results), [seed_cell(row) for row in results.rows]
    states = state_cells(results)
    pruned = [bool(cell) for cell in states.get("state", [""] * len(seeds))]
    if any(cell != "1" for cell, is_pruned in zip(seeds, pruned, strict=True) if not is_pruned):
        scores["seeds"] = seeds
    scores |= states
    table = _table(names | setting_cells(results) | scores)
    unbounded = console.options.update(max_width=10_000)
    if Measurement.get(console, unbounded, table).maximum > console.width:
        table = _table(names | scores)
    console.print(table)
    for note in results.notes:
        console.print(note, soft_wrap=True)


def _table(columns: Columns) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=0)
    kept = {heading: cells for heading, cells in columns.items() if any(cells)}
    for heading, column in kept.items():
        if heading == "row":
            longest = max(len(word) for cell in column for word in cell.split())
            table.add_column(heading, overflow="fold", min_width=longest)
        else:
            table.add_column(heading, justify="right", overflow="fold")
    for cells in zip(*kept.values(), strict=True):
        table.add_row(*(Text(_plain(cell), "bold" if "**" in cell else "") for cell in cells))
    return table


def _plain(cell: str) -> str:
    return cell.replace("**", "")
