"""`transduce score`: what a model thinks of given translations."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from transduce.decoding.scorer import PairScore


def score(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder.")],
    src: Annotated[
        Path,
        typer.Option(metavar="FILE", help="Source text; or, alone, a .tsv or .jsonl."),
    ],
    tgt: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Its translations, line by line."),
    ] = None,
    as_jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Print the score of every token, as JSON lines.")
    ] = False,
    fields: Annotated[
        str,
        typer.Option("--fields", metavar="SRC,TGT", help="Names of the two fields of a .jsonl."),
    ] = "src,tgt",
    device: Annotated[
        str, typer.Option(help="cpu, cuda, cuda:N or mps; auto: a GPU if there is one.")
    ] = "auto",
) -> None:
    """Score given translations: a line each of log-probability, total and mean of its tokens.

    Logarithms are natural, and the end of a translation counts as a token. Last comes the
    perplexity of all tokens, on standard error.
    """
    from transduce.data.corpus import read_pairs, source_of, survey
    from transduce.decoding.device import choose_device
    from transduce.decoding.scorer import Scorer, perplexity
    from transduce.models.folder import load_model

    source = source_of(src, tgt, fields=fields)
    survey(source)
    scorer = Scorer(load_model(model, device=choose_device(device)))
    scorer.check(read_pairs(source))  # a pair too long is found before any work
    total, tokens, sentences = 0.0, 0, 0
    for found in scorer.score(read_pairs(source)):
        typer.echo(_json(found) if as_jsonl else f"{found.total:.4f}\t{found.mean:.4f}")
        total, tokens, sentences = total + found.total, tokens + len(found.pieces), sentences + 1
    typer.echo(
        f"perplexity {perplexity(total, tokens):,.4f} of {tokens:,} tokens "
        f"in {sentences:,} translations, ends included",
        err=True,
    )


def _json(found: "PairScore") -> str:
    import json

    row = {
        "total": found.total,
        "mean": found.mean,
        "pieces": found.pieces,
        "log_probs": found.log_probs,
    }
    return json.dumps(row, ensure_ascii=False)
