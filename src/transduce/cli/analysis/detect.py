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
    """Print the language of each line, its confidence, and the line, separated by tabs.

    Lines without letters are in no language: und.
    """
    from transduce.cli.terminal.text_input import TextInput
    from transduce.text.detection import UNDETERMINED, LanguageDetector

    codes = None if among is None else [code.strip() for code in among.split(",")]
    if codes is not None and not all(codes):
        raise InputError(f"--among {among}: write codes with commas, such as en,de,fr")
    lines, detector = TextInput(files or []), LanguageDetector()
    if unknown := [code for code in codes or () if not detector.knows(code)]:
        raise InputError(
            f"--among {among}: no language that can be detected has the code {unknown[0]}"
        )
    for line in lines:
        best = detector.detect(line, codes)[0]
        code = best.code if best.confidence else UNDETERMINED
        typer.echo(f"{code}\t{best.confidence:.3f}\t{line}")
