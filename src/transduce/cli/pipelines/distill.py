"""`transduce distill`: a small, fast student of a larger model."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.cli.pipelines.training_options import (
    EpochsOption,
    MinutesOption,
    SeedOption,
    StepsOption,
    training_settings,
)
from transduce.cli.terminal.completion import complete_preset
from transduce.cli.terminal.options import (
    AlphaOption,
    BeamOption,
    DeviceOption,
    EngineOption,
    FieldsOption,
    PrecisionOption,
    SetOption,
)
from transduce.cli.train import DevSrcOption, DevTgtOption
from transduce.cli.translation.shards import OnOption, ShardLinesOption

if TYPE_CHECKING:
    from transduce.pipelines.distillation import Distillation


class RankedBy(StrEnum):
    """What the worst pairs are found by."""

    SCORE = "score"
    AGREEMENT = "agreement"


TeachersArgument = Annotated[
    list[Path],
    typer.Argument(metavar="TEACHER", help="A model folder, or several for an ensemble."),
]
SrcOption = Annotated[
    list[Path], typer.Option(metavar="FILE", help="Text for the teacher to translate.")
]
OutOption = Annotated[
    Path, typer.Option(metavar="DIR", help="Folder of the student and of every stage's outcome.")
]
TgtOption = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Reference translations of --src, line by line."),
]
PresetOption = Annotated[
    str,
    typer.Option(help="The student's shape ('transduce presets').", autocompletion=complete_preset),
]
KeepOption = Annotated[
    float, typer.Option(metavar="SHARE", help="The share of the translations to keep at most.")
]
ByOption = Annotated[
    RankedBy | None,
    typer.Option(
        help="What the worst are found by: the teacher's score per token, or the agreement with "
        "--tgt, which is the default with it.",
        show_default=False,
    ),
]
NBestOption = Annotated[
    int,
    typer.Option("--n-best", metavar="N", help="Learn from the best of N by agreement with --tgt."),
]
TestSrcOption = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Source of a test set, never trained on; repeatable."),
]
TestRefOption = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Its references, one file for each --test-src."),
]
ShortlistOption = Annotated[
    bool,
    typer.Option(
        "--shortlist",
        help="Make the student a shortlist of the pairs ('transduce shortlist'), and measure it.",
    ),
]
WindowOption = Annotated[
    int | None,
    typer.Option(metavar="N", help="Lines that are read and translated together."),
]


def distill(
    teachers: TeachersArgument,
    src: SrcOption,
    out: OutOption,
    tgt: TgtOption = None,
    fields: FieldsOption = "src,tgt",
    preset: PresetOption = "student_tiny",
    keep: KeepOption = 0.9,
    by: ByOption = None,
    beam: BeamOption = None,
    alpha: AlphaOption = None,
    n_best: NBestOption = 1,
    dev_src: DevSrcOption = None,
    dev_tgt: DevTgtOption = None,
    test_src: TestSrcOption = None,
    test_ref: TestRefOption = None,
    minutes: MinutesOption = None,
    steps: StepsOption = None,
    epochs: EpochsOption = None,
    seed: SeedOption = None,
    changes: SetOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "float32",
    engine: EngineOption = None,
    shard_lines: ShardLinesOption = None,
    window: WindowOption = None,
    on: OnOption = None,
    shortlist: ShortlistOption = False,
) -> None:
    """Train a small student on a model's translations, export it to int8 and measure it.

    The same command goes on after it was stopped: each stage's outcome is kept in the folder.
    """
    from transduce.cli.pipelines.stage_display import showing_stages
    from transduce.pipelines.distillation import distill as run
    from transduce.translation.load import default_options

    settings = training_settings(
        changes or [], minutes=minutes, steps=steps, epochs=epochs, seed=seed
    )
    own = default_options(teachers[0])
    options = replace(
        own,
        beam=own.beam if beam is None else beam,
        alpha=own.alpha if alpha is None else alpha,
        n_best=n_best,
    )
    with showing_stages() as display:
        done = run(
            teachers,
            src=src,
            out=out,
            tgt=tgt or [],
            fields=fields,
            options=options,
            by=None if by is None else by.value,
            keep=keep,
            preset=preset,
            settings=settings,
            dev_src=dev_src or [],
            dev_tgt=dev_tgt or [],
            test_src=test_src or [],
            test_ref=test_ref or [],
            device=device,
            precision=precision,  # type: ignore[arg-type]
            engine=engine,  # type: ignore[arg-type]
            shard_lines=shard_lines,
            window=window,
            on=on,
            shortlist=shortlist,
            watcher=display,
        )
        if done.is_stopped:
            display.stopped()
    if not done.is_stopped:
        _show(done)


def _show(done: "Distillation") -> None:
    """Print a line for each system, and where everything is."""
    assert done.report is not None
    for name, speed in done.report["speeds"].items():
        typer.echo(
            f"{name}: {_quality(done.report, name)}{speed['parameters']:,} parameters, "
            f"{speed['disk_bytes'] / 1e6:.1f} MB, {speed['sentences_per_s']:.1f} sentences/s, "
            f"{speed['latency_ms']:.0f} ms for one ({speed['engine']}, beam {speed['beam']}, CPU)"
        )
    best = done.int8 or done.student
    typer.echo(f"report: {done.folder / 'report.md'}", err=True)
    typer.echo(f"Next: transduce translate {best}, transduce serve {best}", err=True)


def _quality(report: dict[str, Any], name: str) -> str:
    """Name the scores of a system on each test set."""
    found = ""
    for quality in report["qualities"]:
        if name in quality["reports"]:
            scores = quality["reports"][name]["scores"][:2]
            shown = ", ".join(f"{score['name']} {score['score']:.1f}" for score in scores)
            found += f"{shown} on {quality['test']}, "
    return found
