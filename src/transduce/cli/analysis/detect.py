"""`transduce detect`: the language of each line."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.errors import InputError

FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[FILE]...", help="Text files; by default standard input."),
]
AmongOption = Annotated[
    str | None,
    typer.Option(metavar="CODES", help="The languages that it may be in, such as en,de,fr."),
]


def detect(files: FilesArgument = None, among: AmongOption = None) -> None:
    """Print the language of each line, its confidence, and the line, separated by tabs."""
    from transduce.cli.terminal.text_input import TextInput
    from transduce.text.detection import LanguageDetector

    codes = None if among is None else among.split(",")
    if codes is not None and not all(codes):
        raise InputError(f"--among {among}: write codes with commas, such as en,de,fr")
    lines, detector = TextInput(files or []), LanguageDetector()
    for line in lines:
        best = detector.detect(line, codes)[0]
        typer.echo(f"{best.code}\t{best.confidence:.3f}\t{line}")
