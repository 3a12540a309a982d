"""`transduce shortlist`: which tokens translate which, for a faster search on the CPU."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.terminal.options import FieldsOption, ModelArgument
from transduce.errors import counted

SrcOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Source text of training pairs; may be repeated. By default that of the settings.",
    ),
]
TgtOption = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="Its translation, line by line.")
]
FrequentOption = Annotated[
    int, typer.Option(metavar="N", help="The most frequent target tokens may always be chosen.")
]
PerTokenOption = Annotated[
    int, typer.Option(metavar="N", help="Most tokens that a source token is translated by.")
]


def shortlist(
    model: ModelArgument,
    src: SrcOption = None,
    tgt: TgtOption = None,
    fields: FieldsOption = "src,tgt",
    frequent: FrequentOption = 100,
    per_token: PerTokenOption = 100,
) -> None:
    """Align training pairs, and write which tokens translate which into the model's folder.

    --shortlist of translate, serve, evaluate and export uses it.
    """
    from transduce.translation.shortlist.make import make_shortlist

    made = make_shortlist(
        model, src=src or [], tgt=tgt or [], fields=fields, frequent=frequent, per_token=per_token
    )
    mean = made.entries / max(made.tokens, 1)
    typer.echo(
        f"wrote {made.path}: {counted(made.tokens, 'source token')} with {mean:.1f} target tokens "
        f"each, from {counted(made.pairs, 'pair')}"
    )
    typer.echo(f"Next: transduce translate {model} --shortlist", err=True)
