"""`transduce export` and `transduce import`: models for other engines, and from other toolkits."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.terminal.options import ModelArgument


class Format(StrEnum):
    """Formats that a model can be exported to."""

    CTRANSLATE2 = "ctranslate2"
    HUGGINGFACE = "huggingface"


class Origin(StrEnum):
    """Formats that a model can be imported from."""

    MARIAN_HF = "marian-hf"


class Quantization(StrEnum):
    """Types in which CTranslate2 can store weights."""

    INT8 = "int8"
    INT8_FLOAT32 = "int8_float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"


def export_model(
    model: ModelArgument,
    to: Annotated[Format, typer.Option(help="Format to write.")],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder to write, which must not exist.")
    ],
    quantize: Annotated[
        Quantization | None, typer.Option(help="Type of the stored weights, for ctranslate2.")
    ] = None,
    shortlist: Annotated[
        bool,
        typer.Option("--shortlist", help="With the shortlist in the folder, for ctranslate2."),
    ] = False,
) -> None:
    """Export a model to CTranslate2, or to a Marian model that transformers can load."""
    from transduce.errors import InputError

    if to is Format.CTRANSLATE2:
        from transduce.export.ctranslate2 import export_ctranslate2

        export_ctranslate2(
            model, out, quantize=quantize.value if quantize else None, shortlist=shortlist
        )
        typer.echo(f"wrote {out}: 'transduce translate {out}' and CTranslate2 load it")
        return
    for name, given in (("quantize", quantize is not None), ("shortlist", shortlist)):
        if given:
            raise InputError(f"--{name} is for --to ctranslate2")
    from transduce.export.huggingface import export_huggingface

    export_huggingface(model, out)
    typer.echo(f"wrote {out}: AutoModelForSeq2SeqLM and AutoTokenizer load it")


def import_model(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the model to import.")],
    origin: Annotated[Origin, typer.Option("--from", help="Format of DIR.")],
    out: Annotated[
        Path, typer.Option(metavar="MODEL", help="Model folder to write, which must not exist.")
    ],
) -> None:
    """Import a model of another toolkit: a Marian model in Hugging Face's format, as OPUS-MT's."""
    from transduce.export.marian_import import import_marian

    assert origin is Origin.MARIAN_HF, origin
    import_marian(folder, out)
    typer.echo(
        f"wrote {out}: 'transduce translate {out}' uses it, "
        f"'transduce train --init {out}' fine-tunes it"
    )
