"""Arguments and options that several commands share."""

import re
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.terminal.completion import (
    complete_device,
    complete_engine,
    complete_precision,
    complete_setting,
)
from transduce.errors import InputError

ModelArgument = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A model folder, a run, or one of its checkpoints."),
]


def check_device(name: str | None) -> str | None:
    """Refuse a name that no device has, before anything is loaded."""
    if name is not None and not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", name):
        raise InputError(f"--device {name}: use auto, cpu, cuda, cuda:N or mps")
    return name


ToOption = Annotated[
    str | None,
    typer.Option("--to", metavar="CODE", help="Language to translate into, of a model of several."),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        callback=check_device,
        help="cpu, cuda, cuda:N or mps; auto: a GPU if there is one.",
        autocompletion=complete_device,
    ),
]
PrecisionOption = Annotated[
    str,
    typer.Option(
        help="float32; bf16, faster on GPUs; int8, faster on the CPU.",
        autocompletion=complete_precision,
    ),
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        help="torch, ctranslate2 or auto; by default the one MODEL was made for.",
        autocompletion=complete_engine,
    ),
]
ShortlistOption = Annotated[
    bool,
    typer.Option(
        "--shortlist",
        help="Search only the tokens that those of a sentence are translated by: faster on the "
        "CPU. 'transduce shortlist' makes the list.",
    ),
]
BeamOption = Annotated[
    int | None,
    typer.Option(
        help="Hypotheses kept per sentence; 1 is greedy search. By default 4 (§6.1), for parsing "
        "21 (§6.3).",
        show_default=False,
    ),
]
AlphaOption = Annotated[
    float | None,
    typer.Option(
        help="Exponent of the length penalty; 0 for none. By default 0.6 (§6.1), for parsing 0.3 "
        "(§6.3).",
        show_default=False,
    ),
]
FieldsOption = Annotated[
    str,
    typer.Option(
        "--fields",
        metavar="SRC,TGT",
        help="Columns of .tsv and .csv by name or number, fields of .jsonl, languages of .tmx.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Change a setting, such as model.d_model=256.",
        autocompletion=complete_setting,
    ),
]
