"""A heat map of the scores on a grid of two settings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from transduce.analysis.curves import set_title
from transduce.analysis.pictures import fonts_for, save_picture
from transduce.sweeps.results import RowResult, SweepResults


def is_two_dimensional(results: SweepResults) -> bool:
    """Whether the sweep has a grid over two settings with several values each."""
    grid = results.plan.file.grid
    return len(grid) == 2 and all(len(values) > 1 for values in grid.values())


def draw_heat_map(results: SweepResults, path: Path) -> bool:
    """Draw the mean score of every cell of the grid; return False if no cell has one.

    It is the score on the first test set; without test sets the perplexity on the development set.
    """
    from matplotlib.figure import Figure

    (down, ys), (across, xs) = results.plan.file.grid.items()
    cells = np.full((len(ys), len(xs)), np.nan)
    for row in results.rows:
        grid = row.runs[0].planned.grid
        score = _score(results, row)
        if grid and score is not None:
            cells[_place(ys, grid[down]), _place(xs, grid[across])] = score
    if np.isnan(cells).all():
        return False
    title = _title(results)
    fonts, _ = fonts_for([title, down, across, *map(str, (*xs, *ys))])
    figure = Figure(
        figsize=(2.4 + 0.9 * len(xs), 1.8 + 0.6 * len(ys)), dpi=150, layout="constrained"
    )
    panel = figure.subplots()
    picture = panel.imshow(cells, aspect="auto", cmap="viridis")
    panel.set_xticks(range(len(xs)), list(map(str, xs)), fontfamily=fonts)
    panel.set_yticks(range(len(ys)), list(map(str, ys)), fontfamily=fonts)
    panel.set_xlabel(across)
    panel.set_ylabel(down)
    set_title(panel, title)
    dark = np.nanmean(cells)  # on cells below it, white text is easier to read
    for (y, x), value in np.ndenumerate(cells):
        if not np.isnan(value):
            colour = "white" if value < dark else "black"
            panel.text(x, y, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=9)
    figure.colorbar(picture)
    save_picture(figure, path)
    return True


def _score(results: SweepResults, row: RowResult) -> float | None:
    found = row.score(results.sets[0]) if results.sets else row.perplexity
    return found.mean if found else None


def _title(results: SweepResults) -> str:
    if not results.sets:
        return "perplexity on the development set"
    name = results.sets[0]
    return f"{results.metrics(name)[0].name} on {name}"


def _place(values: Sequence[Any], value: Any) -> int:
    return [str(one) for one in values].index(str(value))
