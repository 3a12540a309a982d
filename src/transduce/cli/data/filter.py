"""`transduce data filter`: the best pairs of a corpus."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.data.check import shortened
from transduce.cli.pipelines.training_options import (
    EpochsOption,
    MinutesOption,
    SeedOption,
    StepsOption,
    training_settings,
)
from transduce.cli.terminal.completion import complete_preset
from transduce.cli.terminal.options import DeviceOption, FieldsOption, SetOption
from transduce.errors import InputError

if TYPE_CHECKING:
    from transduce.pipelines.filtering.filter_corpus import FilteredCorpus

SrcOption = Annotated[
    list[Path],
    typer.Option(
        metavar="FILE",
        help="Source text; or a .tsv, .csv, .jsonl, .tmx, .po or .xlf with both sides.",
    ),
]
TgtOption = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Target text, line by line the translation of --src."),
]
ToOption = Annotated[
    Path, typer.Option("--to", metavar="DIR", help="Folder for kept pairs, scores and models.")
]
KeepOption = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE", help="The share of all pairs to keep; by default 0.9.", show_default=False
    ),
]
ModelsOption = Annotated[
    tuple[Path, Path] | None,
    typer.Option(
        "--models",
        metavar="FORWARD REVERSE",
        help="A model of each direction; by default two small ones are trained.",
    ),
]
NoModelsOption = Annotated[
    bool, typer.Option("--no-models", help="Drop by rules, near duplicates and languages alone.")
]
LanguagesOption = Annotated[
    str | None,
    typer.Option(metavar="SRC,TGT", help="Languages; by default those that files are named after."),
]
NoDetectOption = Annotated[
    bool, typer.Option("--no-detect", help="Do not check which languages texts are in.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Score all pairs and show what would be dropped.")
]
PresetOption = Annotated[
    str, typer.Option(help="Shape of the small models.", autocompletion=complete_preset)
]
SampleOption = Annotated[
    int, typer.Option(metavar="N", help="Pairs that the small models are trained on at most.")
]
ShardPairsOption = Annotated[
    int, typer.Option(metavar="N", help="Pairs that are held in memory and scored together.")
]


def filter_pairs(
    src: SrcOption,
    to: ToOption,
    tgt: TgtOption = None,
    keep: KeepOption = None,
    models: ModelsOption = None,
    no_models: NoModelsOption = False,
    languages: LanguagesOption = None,
    no_detect: NoDetectOption = False,
    dry_run: DryRunOption = False,
    fields: FieldsOption = "src,tgt",
    preset: PresetOption = "tiny",
    sample: SampleOption = 200_000,
    shard_pairs: ShardPairsOption = 10_000,
    minutes: MinutesOption = None,
    steps: StepsOption = None,
    epochs: EpochsOption = None,
    seed: SeedOption = None,
    changes: SetOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Score every pair of a corpus and keep the best share; the corpus itself stays as it is.

    Pairs are dropped that break the rules of cleaning, repeat another, or are in other languages,
    and then the worst by two models, forward and reverse. The same command goes on if stopped.
    """
    from transduce.cli.pipelines.stage_display import showing_stages
    from transduce.pipelines.filtering.filter_corpus import filter_corpus

    settings = training_settings(
        changes or [], minutes=minutes, steps=steps, epochs=epochs, seed=seed
    )
    with showing_stages() as display:
        done = filter_corpus(
            src,
            tgt or [],
            to=to,
            keep=keep,
            models=models,
            use_models=not no_models,
            languages=None if languages is None else _two(languages),
            detect=not no_detect,
            fields=fields,
            preset=preset,
            settings=settings,
            sample_pairs=sample,
            shard_pairs=shard_pairs,
            dry_run=dry_run,
            device=device,
            watcher=display,
        )
        if done.is_stopped:
            display.stopped()
    if not done.is_stopped:
        _show(done)


def _two(languages: str) -> tuple[str, str]:
    source, _, target = languages.replace(" ", "").partition(",")
    if not (source and target):
        raise InputError(f"--languages {languages}: give two codes, such as en,de")
    return source, target


def _show(done: "FilteredCorpus") -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table("", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("pairs", justify="right")
    table.add_column("share", justify="right")
    dropped = [(f"dropped: {reason}", count) for reason, count in done.dropped.items()]
    for name, count in [("read", done.pairs), *dropped, ("kept", done.kept)]:
        table.add_row(name, f"{count:,}", f"{count / max(1, done.pairs):.2%}")
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print(table)
    for one in done.examples:
        console.print(f"\n{one.reason}, pair {one.number:,}:")
        console.print(f"  {shortened(one.pair.src)}\n  {shortened(one.pair.tgt)}")
    where = f"scores: {done.folder / 'scores'}"
    if done.files is None:
        typer.echo(f"{where}; nothing else is written: it is a dry run", err=True)
    else:
        typer.echo(f"wrote {done.files[0]} and {done.files[1]}; {where}", err=True)
