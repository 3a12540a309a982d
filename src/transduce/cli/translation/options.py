"""Options of the commands that translate."""

from pathlib import Path
from typing import Annotated

import typer

FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE",
        help="Text, line by line, or the source side of a .tsv, .csv, .jsonl or .tmx; "
        "by default, or with -, standard input. With --format, one document.",
    ),
]
SourceFieldsOption = Annotated[
    str,
    typer.Option(
        "--fields",
        metavar="SRC[,TGT]",
        help="Column, field or language of the source text in such a file.",
    ),
]
EnsembleOption = Annotated[
    list[Path] | None,
    typer.Option(metavar="MODEL", help="Another model, to translate with an ensemble."),
]
DraftOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Smaller model, or 'ngrams', that drafts for greedy search (--beam 1): one sentence "
        "takes less time, and its translation is the same.",
    ),
]
NBestOption = Annotated[
    int | None,
    typer.Option(metavar="N", help="Print the N best: line number from 0 ||| text ||| score."),
]
SampleOption = Annotated[bool, typer.Option("--sample", help="Sample instead of searching.")]
TemperatureOption = Annotated[
    float | None, typer.Option(help="Sampling temperature, by default 1; lower is less random.")
]
TopKOption = Annotated[int | None, typer.Option(help="Sample from the k likeliest tokens only.")]
TopPOption = Annotated[
    float | None,
    typer.Option(help="Sample from the likeliest tokens whose probabilities sum to p."),
]
SeedOption = Annotated[int | None, typer.Option(help="Random seed of sampling.")]
WholeLinesOption = Annotated[
    bool, typer.Option("--whole-lines", help="Do not split lines into sentences.")
]
WindowOption = Annotated[
    int | None,
    typer.Option(metavar="N", help="Lines to read before translating them; 1: line by line."),
]
PrefixOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="What each translation must start with, line by line; it may end within a word.",
    ),
]
PrefixTextOption = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="What all translations must start with."),
]
GlossaryOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Terms: source, tab, translations (a|b; none or =: as it is), tab, rules.",
    ),
]
SoftOption = Annotated[
    bool,
    typer.Option(
        "--soft",
        help="Terms are hints, which the model may inflect; for models trained with data.terms.",
    ),
]
ForbidOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Words and phrases that no translation contains."),
]
MemoryOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Translations that exist already (.tmx, .tsv, .csv, .jsonl, .po, .xlf): the same "
        "lines are taken from it, similar ones are offered in --jsonl.",
    ),
]
MemoryFieldsOption = Annotated[
    str,
    typer.Option(metavar="SRC,TGT", help="Languages, columns or fields of --memory."),
]
MemoryThresholdOption = Annotated[
    float,
    typer.Option(metavar="SHARE", help="How similar a line must be to be offered, 0.5 to 1."),
]
MemoryPrefixOption = Annotated[
    bool,
    typer.Option(
        "--memory-prefix",
        help="Begin translations as a similar one does, as far as its source is the same.",
    ),
]
KeepPlaceholdersOption = Annotated[
    bool,
    typer.Option(
        "--keep-placeholders",
        help="Copy addresses, {name}, %s, quantities with units and emoji.",
    ),
]
KeepOption = Annotated[
    list[str] | None,
    typer.Option(metavar="REGEX", help="Copy what matches this pattern too; may be repeated."),
]
JsonlOption = Annotated[
    bool, typer.Option("--jsonl", help="Print a JSON object per line, with scores and notes.")
]
OutOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="File to write, which appears when it is complete; the same command continues it. "
        "DIR/: a folder, for parts of many lines each.",
    ),
]
DrawOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE.svg", help="Draw the tree of the first line, for a parsing model."),
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="text, line by line; html or xml: a document, whose tags are kept.",
    ),
]
