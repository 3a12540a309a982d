"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder.")]
DeviceOption = Annotated[
    str, typer.Option(help="cpu, cuda, cuda:N or mps; auto: a GPU if there is one.")
]
PrecisionOption = Annotated[
    str, typer.Option(help="float32; bf16, faster on GPUs; int8, with ctranslate2.")
]
EngineOption = Annotated[
    str | None,
    typer.Option(help="torch, ctranslate2 or auto; by default the one MODEL was made for."),
]
BeamOption = Annotated[
    int, typer.Option(help="Hypotheses kept per sentence (§6.1); 1 is greedy search.")
]
AlphaOption = Annotated[
    float, typer.Option(help="Exponent of the length penalty (§6.1); 0 for none.")
]
FieldsOption = Annotated[
    str,
    typer.Option("--fields", metavar="SRC,TGT", help="Names of the two fields of a .jsonl."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Change a setting, such as model.d_model=256."
    ),
]
