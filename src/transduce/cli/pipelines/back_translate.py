"""`transduce back-translate` and `transduce iterate`: monolingual text as training data."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.pipelines.distill import WindowOption
from transduce.cli.pipelines.training_options import (
    EpochsOption,
    MinutesOption,
    SeedOption,
    StepsOption,
    training_settings,
)
from transduce.cli.terminal.options import (
    AlphaOption,
    BeamOption,
    DeviceOption,
    EngineOption,
    FieldsOption,
    PrecisionOption,
    SetOption,
    ToOption,
)
from transduce.cli.train import DevSrcOption, DevTgtOption, HeldOutOption, PresetOption
from transduce.cli.translation.shards import OnOption, ShardLinesOption
from transduce.errors import counted

if TYPE_CHECKING:
    from transduce.pipelines.back_translation import SyntheticPairs


class Method(StrEnum):
    """How text is translated back."""

    BEAM = "beam"
    SAMPLE = "sample"
    NOISE = "noise"


MethodOption = Annotated[
    Method,
    typer.Option(
        help="beam; sample, from all tokens; noise: beam, with words deleted, masked and swapped "
        "in the source."
    ),
]
TagOption = Annotated[
    str | None,
    typer.Option(
        metavar="WORD",
        help="Put before each synthetic source; by default <bt>, and none with --forward; '' for "
        "none.",
        show_default=False,
    ),
]


def back_translate(
    model: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL",
            help="A model from the text's language to the other; several: an ensemble.",
        ),
    ],
    mono: Annotated[list[Path], typer.Option(metavar="FILE", help="Monolingual text; repeatable.")],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder; the pairs are DIR/pairs/synthetic.*.")
    ],
    method: MethodOption = Method.BEAM,
    forward: Annotated[
        bool,
        typer.Option("--forward", help="The text is the source, what the model writes the target."),
    ] = False,
    tag: TagOption = None,
    keep: Annotated[
        float, typer.Option(metavar="SHARE", help="The share to keep at most, by the score.")
    ] = 1.0,
    beam: BeamOption = None,
    alpha: AlphaOption = None,
    seed: Annotated[int, typer.Option(help="Random seed of samples and noise.")] = 1,
    fields: FieldsOption = "src,tgt",
    to: ToOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "float32",
    engine: EngineOption = None,
    shard_lines: ShardLinesOption = None,
    window: WindowOption = None,
    on: OnOption = None,
) -> None:
    """Translate monolingual text into synthetic pairs to train on.

    The same command goes on after it was stopped.
    """
    from transduce.cli.pipelines.stage_display import showing_stages
    from transduce.pipelines.back_translation import back_translate as run
    from transduce.translation.load import default_options

    own = default_options(model[0])
    options = replace(
        own,
        beam=own.beam if beam is None else beam,
        alpha=own.alpha if alpha is None else alpha,
    )
    with showing_stages() as display:
        done = run(
            model,
            mono=mono,
            out=out,
            method=method.value,
            forward=forward,
            tag=tag,
            keep=keep,
            options=options,
            seed=seed,
            fields=fields,
            to=to,
            device=device,
            precision=precision,  # type: ignore[arg-type]
            engine=engine,  # type: ignore[arg-type]
            shard_lines=shard_lines,
            window=window,
            on=on,
            watcher=display,
        )
    _say(done)


def iterate(
    src: Annotated[list[Path], typer.Option(metavar="FILE", help="Source text of the pairs.")],
    tgt: Annotated[list[Path], typer.Option(metavar="FILE", help="Target text, line by line.")],
    mono: Annotated[
        list[Path], typer.Option(metavar="FILE", help="Monolingual text of the target language.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of all models and pairs.")],
    mono_src: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Monolingual text of the source language, for a second round."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(help="How often text is translated back.")] = 1,
    method: MethodOption = Method.BEAM,
    tag: TagOption = None,
    weight: Annotated[
        float, typer.Option(help="Times each pair is used per epoch; a synthetic one is used once.")
    ] = 1.0,
    preset: PresetOption = None,
    dev_src: DevSrcOption = None,
    dev_tgt: DevTgtOption = None,
    held_out: HeldOutOption = None,
    minutes: MinutesOption = None,
    steps: StepsOption = None,
    epochs: EpochsOption = None,
    seed: SeedOption = None,
    changes: SetOption = None,
    device: DeviceOption = "auto",
    shard_lines: ShardLinesOption = None,
) -> None:
    """Train with pairs and monolingual text: a reverse model, back-translation, a final model.

    The same command goes on after it was stopped.
    """
    from transduce.cli.pipelines.stage_display import showing_stages
    from transduce.pipelines.iteration import iterate_back_translation

    settings = training_settings(
        changes or [], minutes=minutes, steps=steps, epochs=epochs, seed=seed
    )
    with showing_stages() as display:
        done = iterate_back_translation(
            src=src,
            tgt=tgt,
            mono=mono,
            out=out,
            mono_src=mono_src or [],
            rounds=rounds,
            method=method.value,
            tag=tag,
            pair_weight=weight,
            preset=preset,
            settings=settings,
            dev_src=dev_src or [],
            dev_tgt=dev_tgt or [],
            held_out=held_out or [],
            device=device,
            shard_lines=shard_lines,
            watcher=display,
        )
        if done.is_stopped:
            display.stopped()
    if not done.is_stopped:
        typer.echo(f"wrote {done.model}: 'transduce translate {done.model}' uses it", err=True)


def _say(done: "SyntheticPairs") -> None:
    kept, dropped = done.outcome["kept"], done.outcome["dropped"]
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
    typer.echo(
        f"wrote {done.src} and {done.tgt}: {counted(kept, 'pair')}"
        + (f"; dropped {reasons}" if reasons else ""),
        err=True,
    )
    typer.echo(
        f"Next: transduce train --src PAIRS.src --tgt PAIRS.tgt --src {done.src} --tgt {done.tgt} "
        "--set data.weights=[1,1]",
        err=True,
    )
