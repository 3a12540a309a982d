"""`transduce data confident`: the outputs that a model is most certain of, to train on."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from transduce.errors import InputError, counted


def keep_confident(
    outputs: Annotated[
        list[Path],
        typer.Argument(metavar="FILE.jsonl", help="What translate --jsonl wrote."),
    ],
    to: Annotated[
        Path, typer.Option(metavar="FILE", help="File for the outputs that are kept, one a line.")
    ],
    keep: Annotated[
        float, typer.Option(metavar="SHARE", help="The share to keep, above 0 and up to 1.")
    ] = 0.5,
    sources: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for their sources; trees have them in themselves."),
    ] = None,
) -> None:
    """Keep the outputs with the best scores of what a model wrote about unlabelled text.

    Of several files, as of parts of a text, the best of all are kept.

    Scores are log-probabilities, divided by the length penalty. Blank lines, and outputs with a
    note, such as one that did not end, are not kept.
    """
    from transduce.bulk.output_lines import on_one_line
    from transduce.cli.terminal.text_output import check_new_file, text_output

    if not 0 < keep <= 1:
        raise InputError(f"--keep {keep:g}: use more than 0, up to 1")
    check_new_file(to, option="--to")
    check_new_file(sources, option="--sources")
    sound = [found for path in outputs for found in _sound(path)]
    if not sound:
        verb = "has" if len(outputs) == 1 else "have"
        raise InputError(f"{', '.join(map(str, outputs))} {verb} no outputs to keep")
    scores = sorted(score for _, _, score in sound)
    least = scores[len(scores) - max(1, round(keep * len(scores)))]
    kept = [(source, text) for source, text, score in sound if score >= least]
    for path, side in ((to, 1), (sources, 0)):
        if path is not None:
            with text_output(path) as write:
                for pair in kept:
                    write(on_one_line(pair[side]))
    typer.echo(
        f"kept {len(kept):,} of {counted(len(scores), 'output')}, with scores from {least:.4f} on",
        err=True,
    )


def _sound(path: Path) -> "list[tuple[str, str, float]]":
    """Read source, text and score of the outputs that have no note."""
    from transduce.data.corpus import read_lines
    from transduce.files.regular import parse_json

    found = []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            row: dict[str, Any] = parse_json(line)
            source, text, score = row["source"], row["text"], row["score"]
            score = -math.inf if score is None else float(score)
            if math.isnan(score):
                raise ValueError("its score is no number")
        except (ValueError, KeyError, TypeError, OverflowError) as fault:
            raise InputError(
                f"{path} line {number:,}: no output of translate --jsonl: {fault}"
            ) from fault
        if text and score > -math.inf and not row.get("note"):
            found.append((str(source), str(text), score))
    return found
