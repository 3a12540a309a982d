"""A picture of scores by direction: sources are rows, targets columns."""

from collections.abc import Callable, Mapping
from pathlib import Path

from transduce.analysis.pictures import save_picture

Cell = tuple[float, bool]
"""A score, and whether the direction was trained."""


def language_matrix(scores: Mapping[tuple[str, str], Cell], path: Path, *, title: str) -> None:
    """Draw the score of each pair of languages; zero-shot directions are in italics with a star."""
    from matplotlib.figure import Figure

    sources = list(dict.fromkeys(source for source, _ in scores))
    targets = sorted({target for _, target in scores}, key=_place_in(sources))
    cells = [
        [scores.get((source, target), (float("nan"), True))[0] for target in targets]
        for source in sources
    ]
    figure = Figure(
        figsize=(1.6 + 0.75 * len(targets), 1.4 + 0.6 * len(sources)), layout="constrained"
    )
    axes = figure.add_subplot()
    axes.imshow(cells, cmap="YlGnBu", aspect="auto")
    numbers = [score for score, _ in scores.values()]
    middle = min(numbers) + 0.6 * (max(numbers) - min(numbers))
    for (source, target), (score, is_trained) in scores.items():
        axes.text(
            targets.index(target),
            sources.index(source),
            f"{score:.1f}" if is_trained else f"{score:.1f}*",
            ha="center",
            va="center",
            style="normal" if is_trained else "italic",
            color="white" if score > middle else "black",
        )
    axes.set_xticks(range(len(targets)), targets)
    axes.set_yticks(range(len(sources)), sources)
    axes.set_xlabel("target")
    axes.set_ylabel("source")
    axes.set_title(title)
    save_picture(figure, path)


def _place_in(order: list[str]) -> Callable[[str], tuple[int, str]]:
    """Return a key that sorts as `order` does; what is not in it comes last."""
    return lambda code: (order.index(code) if code in order else len(order), code)
