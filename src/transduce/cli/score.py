"""`transduce score`: the log-probabilities of existing translations."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.terminal.options import DeviceOption, FieldsOption, ModelArgument, ToOption
from transduce.errors import counted

if TYPE_CHECKING:
    from transduce.translation.scorer import PairScore


def score(
    model: ModelArgument,
    src: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Source text; or a .tsv, .csv, .jsonl, .tmx, .po, .xlf, without --tgt.",
        ),
    ],
    tgt: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Its translations, line by line.")
    ] = None,
    as_jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Print the score of every token, as JSON lines.")
    ] = False,
    to: ToOption = None,
    fields: FieldsOption = "src,tgt",
    device: DeviceOption = "auto",
) -> None:
    r"""Print the log-probability of each translation, in total and per token.

    Logarithms are natural, and the end token (EOS) counts. The perplexity of all tokens is printed
    last, on standard error. With --jsonl, pieces are text with its spaces; where a character is
    divided between tokens, each shows its bytes, as in \xe6\x97.
    """
    from transduce.cli.terminal.text_input import files_of_pipes
    from transduce.translation.scorer import perplexity
    from transduce.translation.scorer import score as score_pairs

    total, tokens, sentences = 0.0, 0, 0
    with files_of_pipes() as file_of:
        src, tgt = file_of(src), None if tgt is None else file_of(tgt)
        for found in score_pairs(model, src, tgt, fields=fields, device=device, to=to):
            typer.echo(_json(found) if as_jsonl else f"{found.total:.4f}\t{found.mean:.4f}")
            total, tokens, sentences = (
                total + found.total,
                tokens + len(found.pieces),
                sentences + 1,
            )
    typer.echo(
        f"perplexity {perplexity(total, tokens):,.4f} of {counted(tokens, 'token')} "
        f"in {sentences:,} translations, EOS included",
        err=True,
    )


def _json(found: "PairScore") -> str:
    import json

    row = {
        "total": found.total,
        "mean": found.mean,
        "pieces": found.texts,
        "log_probs": found.log_probs,
    }
    return json.dumps(row, ensure_ascii=False)
