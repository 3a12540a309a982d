"""`transduce evaluate --text`: a model of several languages, scored by direction."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from transduce.errors import InputError, counted

if TYPE_CHECKING:
    from transduce.evaluation.languages import LanguageScores
    from transduce.translation.options import Options


def scores_by_direction(
    model: Path | None,
    texts: Sequence[str],
    *,
    options: "Options | None",
    device: str,
    engine: str | None,
    progress: Callable[[int, int], None],
) -> "LanguageScores":
    """Score a model in all directions between texts that are named after their languages."""
    from transduce.data.languages.corpora import named_by_files
    from transduce.evaluation.languages import evaluate_languages

    corpora = named_by_files(texts)
    if model is None:
        raise InputError("what to score? Give a model folder before --text")
    if len(corpora) > 1:
        raise InputError(
            f"--text: one test set in several languages, not {', '.join(corpora)}; give those of "
            "one name"
        )
    [files] = corpora.values()
    if len(files) < 2:
        raise InputError("--text: give the test set in two languages or more")
    return evaluate_languages(
        model,
        files,
        options=options,
        device=device,
        engine=engine,  # type: ignore[arg-type]
        progress=progress,
    )


def show_matrix(result: "LanguageScores") -> None:
    """Print BLEU and chrF by direction, and their means."""
    console = Console(highlight=False, markup=False, emoji=False)
    for name in ("BLEU", "chrF"):
        console.print(_matrix(result, name))
    for group, (count, bleu, chrf) in result.means().items():
        directions = counted(count, "direction")
        console.print(f"{group} ({directions}): mean BLEU {bleu:.2f}, mean chrF {chrf:.2f}")
    if any(not one.is_trained for one in result.directions):
        console.print("*: zero-shot, no pair of this direction was trained on")
    signatures = (score.signature for one in result.directions for score in (one.bleu, one.chrf))
    for signature in dict.fromkeys(signatures):
        console.print(signature, soft_wrap=True)


def draw_matrix(result: "LanguageScores", path: Path) -> None:
    """Draw BLEU by direction."""
    from transduce.analysis.language_matrix import language_matrix

    cells = {
        (one.source, one.target): (one.bleu.score, one.is_trained) for one in result.directions
    }
    language_matrix(cells, path, title="BLEU from source to target")


def as_json(result: "LanguageScores") -> str:
    """Write all numbers as JSON."""
    from transduce import __version__

    tree: dict[str, Any] = {
        "transduce": __version__,
        "system": result.system,
        "means": {
            name: {"directions": count, "BLEU": bleu, "chrF": chrf}
            for name, (count, bleu, chrf) in result.means().items()
        },
        "directions": {
            one.name: {
                "trained": one.is_trained,
                "sentences": one.sentences,
                "BLEU": asdict(one.bleu),
                "chrF": asdict(one.chrf),
            }
            for one in result.directions
        },
    }
    return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"


def _matrix(result: "LanguageScores", name: str) -> Table:
    sources = list(dict.fromkeys(one.source for one in result.directions))
    targets = list(dict.fromkeys(one.target for one in result.directions))
    targets.sort(key=lambda code: sources.index(code) if code in sources else len(sources))
    table = Table(box=SIMPLE_HEAD, title=None)
    table.add_column(f"{name}, from ↓ to →")
    for target in targets:
        table.add_column(target, justify="right")
    cells = {
        (one.source, one.target): (
            f"{(one.bleu if name == 'BLEU' else one.chrf).score:.2f}{'' if one.is_trained else '*'}"
        )
        for one in result.directions
    }
    for source in sources:
        table.add_row(source, *(cells.get((source, target), "") for target in targets))
    return table
