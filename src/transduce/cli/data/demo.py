"""`transduce data demo`: the built-in corpus as text files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.data.text_files import check_folder, write_sides
from transduce.errors import counted

if TYPE_CHECKING:
    from transduce.data.corpus import Pair

DEV, TEST = 200, 500
SHOWN = 3
"""Pairs that are printed as examples."""


def write_demo(
    to: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")],
    pairs: Annotated[int, typer.Option(min=1, help="Sentence pairs for training.")] = 60_000,
) -> None:
    """Write the built-in English-German corpus: train, dev and test, as .en and .de."""
    write_text(to, train=pairs, dev=DEV, test=TEST)
    typer.echo(f"in {to}: train.en, train.de, dev.en, dev.de, test.en, test.de")


def has_text(folder: Path) -> bool:
    """Whether all files of the corpus are there."""
    names = (f"{part}.{side}" for part in ("train", "dev", "test") for side in ("en", "de"))
    return all((folder / name).exists() for name in names)


def write_text(folder: Path, *, train: int, dev: int, test: int) -> "Sequence[Pair]":
    """Write the corpus to files and print some of it; return the test set."""
    from transduce.grammar import split

    check_folder(folder)
    corpus = split(train=train, dev=dev, test=test)
    parts = {"train": corpus.train, "dev": corpus.dev, "test": corpus.test}
    write_sides(folder, parts, ("en", "de"))
    for_training = counted(train, "pair")
    typer.echo(f"{for_training} for training, {dev} for development, {test} for testing, such as")
    for pair in corpus.test[:SHOWN]:
        typer.echo(f"  {pair.src}\n  {pair.tgt}")
    return corpus.test
