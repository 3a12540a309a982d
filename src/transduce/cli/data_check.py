"""`transduce data check`: what is in a corpus, and what cleaning would drop."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from transduce.data.cleaning import Report


def check_corpus(
    src: Annotated[
        Path,
        typer.Argument(
            metavar="SRC", help="Source text; or, alone, a .tsv or .jsonl with both sides."
        ),
    ],
    tgt: Annotated[
        Path | None,
        typer.Argument(metavar="[TGT]", help="Target text, line by line its translation."),
    ] = None,
    fields: Annotated[
        str,
        typer.Option("--fields", metavar="SRC,TGT", help="Names of the two fields of a .jsonl."),
    ] = "src,tgt",
    held_out: Annotated[
        list[Path] | None,
        typer.Option("--held-out", metavar="FILE", help="Sentences that must not be learnt from."),
    ] = None,
) -> None:
    """Read a corpus whole, and show what cleaning would drop, with examples."""
    from rich.console import Console
    from rich.progress import track

    from transduce.data.cleaning import Report, clean
    from transduce.data.corpus import read_pairs, source_of, survey

    source = source_of(src, tgt, fields=fields)
    hidden = [text for path in held_out or [] for text in _sentences(path)]
    total = survey(source)
    report = Report()
    on_terminal = Console(stderr=True)
    pairs = track(
        read_pairs(source),
        "checking",
        total,
        console=on_terminal,
        transient=True,
        disable=not on_terminal.is_terminal,
    )
    for _ in clean(pairs, report, held_out=hidden):
        pass
    _show(report)


def _sentences(path: Path) -> "Iterator[str]":
    """Read a held-out text; a file with both sides holds out both."""
    from transduce.data.corpus import read_sentences, source_of

    has_both = path.suffix.lower() in (".tsv", ".jsonl")
    return read_sentences(source_of(path) if has_both else path)


def _show(report: "Report") -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from transduce.data.cleaning import FILTERS

    table = Table("", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("pairs", justify="right")
    table.add_column("share", justify="right")
    rows = [("read", report.pairs)]
    rows += [(f"dropped: {fault}", report.dropped[fault]) for fault in FILTERS]
    for name, count in [*rows, ("kept", report.kept)]:
        table.add_row(name, f"{count:,}", f"{count / report.pairs:.2%}")
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print(table)
    for fault in FILTERS:
        for number, pair in report.examples.get(fault, []):
            console.print(f"\n{fault}, pair {number:,}:")
            console.print(f"  {_shortened(pair.src)}\n  {_shortened(pair.tgt)}")


def _shortened(text: str) -> str:
    """Show a text on one line of a terminal, with what is not printable in Python's notation."""
    printable = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return printable if len(printable) <= 76 else printable[:75] + "…"
