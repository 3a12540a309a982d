"""`transduce data generate`: tasks with one right answer, as text files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from transduce.cli.data.text_files import check_folder, write_sides
from transduce.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from transduce.data.corpus import Pair
    from transduce.grammar.generated.corpus import GeneratedTask

DEV, TEST = 200, 500
SHOWN = 3
"""Pairs that are printed as examples."""


def generate_task(
    task: Annotated[
        Literal["copy", "reverse", "sort", "recall", "addition", "stories", "questions", "trees"],
        typer.Argument(
            metavar="TASK",
            help="copy, reverse or sort: symbols a to j. recall: pairs of a key and a symbol, then "
            "keys, whose symbols are the answer. addition: two numbers, least "
            "significant digit first. stories: people who walk about with things, and a question "
            "where somebody or something is. questions: English statements, to be turned into "
            "questions. trees: sentences with their trees, as .mrg files for --task parsing.",
            show_default=False,
        ),
    ],
    to: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")],
    pairs: Annotated[int, typer.Option(min=1, help="Pairs for training.")] = 20_000,
    lengths: Annotated[
        str | None,
        typer.Option(
            metavar="FROM-TO",
            help="Symbols or pairs of a line, digits of the longer number, sentences of a story, "
            "or at most so many words of a tree; if not given, 1-8, 1-3, 2-10 and 3-20. A test "
            "beyond them shows what a model has really learnt.",
            show_default=False,
        ),
    ] = None,
    base: Annotated[
        int | None,
        typer.Option(min=2, max=10, help="addition: base of the numbers, 2 to 10; by default 10."),
    ] = None,
    facts: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=2,
            help="stories: sentences that answer the question. 1: where a person is. 2, by "
            "default: where a thing is that people take and leave.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Other seeds give other lines.")] = 1,
) -> None:
    """Write a task with one right answer: train, dev and test, as .src and .tgt, or as .mrg.

    Words are separated by spaces, so train with data.subwords=whitespace, as the presets neural_gpu
    and memory_network do; questions are plain sentences. No line of a split is in another,
    whatever the seeds.
    """
    from transduce.grammar.generated.corpus import LENGTHS, GeneratedTask, split_task

    for option, value, of in (("--base", base, "addition"), ("--facts", facts, "stories")):
        if value is not None and task != of:
            raise InputError(f"{option} is for {of}: leave it out")
    if lengths is not None and task == "questions":
        raise InputError("--lengths: questions are as long as they come, so leave it out")
    check_folder(to)
    shortest, longest = LENGTHS[task] if lengths is None else _range(lengths)
    chosen = GeneratedTask(task, shortest, longest, base=base or 10, facts=facts or 2)
    _write(to, chosen, split_task(chosen, train=pairs, dev=DEV, test=TEST, seed=seed))


def _range(text: str) -> tuple[int, int]:
    """Read `3-8`, or `8` for 8 alone."""
    first, _, last = text.partition("-")
    numbers = (first, last or first)
    if not all(number.isascii() and number.isdigit() and len(number) < 5 for number in numbers):
        raise InputError(f"--lengths {text}: write two numbers, such as 1-8")
    return int(numbers[0]), int(numbers[1])


def _write(folder: Path, task: "GeneratedTask", parts: "Mapping[str, Sequence[Pair]]") -> None:
    is_trees = task.name == "trees"
    write_sides(folder, parts, ("", "mrg") if is_trees else ("src", "tgt"))
    has_lengths = task.name != "questions"
    lengths = f", lengths {task.shortest} to {task.longest}" if has_lengths else ""
    typer.echo(f"{task.name}{lengths}, such as")
    for pair in parts["test"][:SHOWN]:
        typer.echo(f"  {pair.src}\n  {pair.tgt}")
    ending = ".mrg" if is_trees else ".src and .tgt"
    sizes = ", ".join(f"{name}{ending} ({len(pairs):,})" for name, pairs in parts.items())
    typer.echo(f"in {folder}: {sizes}")
