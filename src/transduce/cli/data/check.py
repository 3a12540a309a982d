"""`transduce data check`: which pairs of a corpus cleaning would drop."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.terminal.options import FieldsOption

if TYPE_CHECKING:
    from transduce.data.cleaning import CleaningReport


def check_corpus(
    src: Annotated[
        Path,
        typer.Argument(
            metavar="SRC",
            help="Source text; or a .tsv, .csv, .jsonl, .tmx, .po or .xlf with both sides.",
        ),
    ],
    tgt: Annotated[
        Path | None,
        typer.Argument(metavar="TGT", help="Target text, line by line the translation of SRC."),
    ] = None,
    fields: FieldsOption = "src,tgt",
    held_out: Annotated[
        list[Path] | None,
        typer.Option("--held-out", metavar="FILE", help="Text never to train on."),
    ] = None,
) -> None:
    """Read a whole corpus and show what cleaning would drop, with examples."""
    from rich.console import Console
    from rich.progress import track

    from transduce.data.cleaning import CleaningReport, clean
    from transduce.data.corpus import (
        check_fields_used,
        count_records,
        read_records,
        read_sentences,
        source_of,
        text_or_corpus,
    )

    files = [src, *([tgt] if tgt else []), *(held_out or [])]
    check_fields_used(fields, files)
    source = source_of(src, tgt, fields=fields, among=files)
    held = [text_or_corpus(path, fields=fields, among=files) for path in held_out or []]
    hidden = [text for one in held for text in read_sentences(one)]
    total = count_records(source)
    report = CleaningReport()
    console = Console(stderr=True)
    pairs = track(
        read_records(source),
        "checking",
        total,
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    for _ in clean(pairs, report, held_out=hidden):
        pass
    _show(report)


def _show(report: "CleaningReport") -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from transduce.data.cleaning import FILTERS, UNREADABLE

    table = Table("", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("pairs", justify="right")
    table.add_column("share", justify="right")
    rows = [("read", report.pairs)]
    rows += [
        (f"dropped: {fault}", report.dropped[fault])
        for fault in FILTERS
        if fault != UNREADABLE or report.dropped[fault]
    ]
    for name, count in [*rows, ("kept", report.kept)]:
        table.add_row(name, f"{count:,}", f"{count / report.pairs:.2%}")
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print(table)
    for fault in FILTERS:
        for number, pair in report.examples.get(fault, []):
            console.print(f"\n{fault}, pair {number:,}:")
            if fault == UNREADABLE:  # the line and the rule, which say more than the text alone
                console.print(f"  {pair.src}")
            else:
                console.print(f"  {shortened(pair.src)}\n  {shortened(pair.tgt)}")


def shortened(text: str) -> str:
    """Shorten a text to one line of a terminal, with unprintable characters escaped."""
    printable = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return printable if len(printable) <= 76 else printable[:75] + "…"
