"""`transduce export` and `transduce import`: models for other engines, and from other toolkits."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """What a model can be written as."""

    CTRANSLATE2 = "ctranslate2"
    HUGGINGFACE = "huggingface"


class Origin(StrEnum):
    """What a model can be read from."""

    MARIAN_HF = "marian-hf"


class Quantization(StrEnum):
    """How CTranslate2 can store weights."""

    INT8 = "int8"
    INT8_FLOAT32 = "int8_float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"


def export_model(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a model.")],
    to: Annotated[Format, typer.Option(help="The format to write.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write; it must be new.")],
    quantize: Annotated[
        Quantization | None, typer.Option(help="Store weights smaller, for ctranslate2.")
    ] = None,
) -> None:
    """Write a model in another engine's format: CTranslate2's, or Marian's for transformers."""
    from transduce.errors import InputError

    if to is Format.CTRANSLATE2:
        from transduce.export.ctranslate2 import export_ctranslate2

        export_ctranslate2(model, out, quantize=quantize.value if quantize else None)
        typer.echo(f"wrote {out}: 'transduce translate {out}' and CTranslate2 load it")
        return
    if quantize is not None:
        raise InputError("--quantize is for --to ctranslate2")
    from transduce.export.huggingface import export_huggingface

    export_huggingface(model, out)
    typer.echo(f"wrote {out}: AutoModelForSeq2SeqLM and AutoTokenizer load it")


def import_model(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the other model.")],
    origin: Annotated[Origin, typer.Option("--from", help="What it is.")],
    out: Annotated[Path, typer.Option(metavar="MODEL", help="Model folder to write; new.")],
) -> None:
    """Make a model folder of another toolkit's model: a Marian model in Hugging Face's format."""
    from transduce.export.marian_import import import_marian

    assert origin is Origin.MARIAN_HF, origin
    import_marian(folder, out)
    typer.echo(
        f"wrote {out}: 'transduce translate {out}' uses it, "
        f"'transduce train --init {out}' trains it on"
    )
