"""`transduce train`: from parallel text to a model folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.cli.terminal.completion import complete_device, complete_preset
from transduce.cli.terminal.options import SetOption, check_device
from transduce.cli.terminal.watch import watching
from transduce.errors import InputError

if TYPE_CHECKING:
    from transduce.config.schema import Tree

WITHOUT_BUDGET = "--minutes sets a limit; what is done can be used at any time"

RecipeArgument = Annotated[
    Path | None,
    typer.Argument(metavar="RECIPE.yaml", help="Settings; 'preset: NAME' starts from a preset."),
]
SrcOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="Source text; or both sides: .tsv, .csv, .jsonl, .tmx, .po, .xlf, .mrg.",
    ),
]
TgtOption = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE", help="Target text, line by line the translation of --src."),
]
TextOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME.LANG",
        help="Instead of --src and --tgt, text in a language, once for each: a model of all "
        "directions.",
    ),
]
DevTextOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME.LANG", help="Development text in each of these languages."),
]
FieldsOption = Annotated[
    str | None,
    typer.Option(
        "--fields",
        metavar="SRC,TGT",
        help="Columns of .tsv and .csv by name or number, fields of .jsonl, languages of .tmx.",
    ),
]
TaskOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="translation, generic, answers, pronunciation, parsing or your own."
    ),
]
MetricOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="exact, wer, cer, bleu, chrf or rouge, instead of the task's own metric.",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder of the run; with a recipe, runs/RECIPE by default."),
]
DevSrcOption = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE", help="Development source; by default pairs are held out."),
]
DevTgtOption = Annotated[
    list[str] | None, typer.Option(metavar="FILE", help="Development target, line by line.")
]
HeldOutOption = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE", help="Text never to train on, such as a test set."),
]
PresetOption = Annotated[
    str | None,
    typer.Option(
        help="Name of a preset ('transduce presets'); by default chosen by corpus and budget.",
        autocompletion=complete_preset,
    ),
]
InitOption = Annotated[
    Path | None, typer.Option(metavar="MODEL", help="Model folder, run or checkpoint to fine-tune.")
]
MinutesOption = Annotated[
    float | None,
    typer.Option(
        help="Maximum minutes of training, with its scores; preparing the text before and choosing "
        "the weights after it take more."
    ),
]
StepsOption = Annotated[int | None, typer.Option(min=1, help="Maximum steps.")]
EpochsOption = Annotated[float | None, typer.Option(help="Maximum epochs.")]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        callback=check_device,
        help="cpu, cuda, cuda:N or mps; by default a GPU if there is one.",
        autocompletion=complete_device,
    ),
]
SeedOption = Annotated[int | None, typer.Option(help="Random seed.")]
NoCleanOption = Annotated[
    bool, typer.Option("--no-clean", help="Keep the pairs that cleaning would drop.")
]
CacheOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder for prepared data that runs can share.")
]
FreshOption = Annotated[
    bool, typer.Option("--fresh", help="Delete the run in the folder and start over.")
]


def train(
    recipe: RecipeArgument = None,
    src: SrcOption = None,
    tgt: TgtOption = None,
    text: TextOption = None,
    fields: FieldsOption = None,
    out: OutOption = None,
    dev_src: DevSrcOption = None,
    dev_tgt: DevTgtOption = None,
    dev_text: DevTextOption = None,
    held_out: HeldOutOption = None,
    task: TaskOption = None,
    metric: MetricOption = None,
    preset: PresetOption = None,
    init: InitOption = None,
    minutes: MinutesOption = None,
    steps: StepsOption = None,
    epochs: EpochsOption = None,
    device: DeviceOption = None,
    seed: SeedOption = None,
    no_clean: NoCleanOption = False,
    changes: SetOption = None,
    cache: CacheOption = None,
    fresh: FreshOption = False,
) -> None:
    """Train a model on parallel text; the same command resumes a run that was stopped."""
    from transduce.data.corpus import check_fields_used
    from transduce.training.loop import train as run

    for name, value in {"minutes": minutes, "epochs": epochs}.items():
        if value is not None and not value > 0:
            raise InputError(f"--{name} {value:g}: must be more than 0")
    if fields is not None and recipe is None:
        texts = [src, tgt, dev_src, dev_tgt, held_out]
        check_fields_used(fields, [Path(name) for names in texts for name in names or []])
    options: Tree = {
        "data": {
            "task": task,
            "metric": metric,
            "fields": fields,
            "clean": False if no_clean else None,
        },
        "training": {"minutes": minutes, "steps": steps, "epochs": epochs},
        "run": {"device": device, "seed": seed},
    }
    with _saying_that_it_resumes(), watching(WITHOUT_BUDGET) as watch:
        outcome = run(
            recipe,
            src=src or [],
            tgt=tgt or [],
            out=out,
            dev_src=dev_src or [],
            dev_tgt=dev_tgt or [],
            held_out=held_out or [],
            texts=text or [],
            dev_texts=dev_text or [],
            preset=preset,
            init=init,
            settings=_merged(options, changes or []),
            cache=cache,
            fresh=fresh and watch.is_first_attempt,
            progress=watch,
            should_stop=watch.should_stop,
            process=watch.process,
        )
        watch.report_outcome(outcome)
        watch.name_next_commands(outcome)


@contextmanager
def _saying_that_it_resumes() -> Iterator[None]:
    """Say so where Ctrl-C ends the command at once: while text is prepared, or a second time."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("Stopped. The same command resumes from here.", err=True)
        raise typer.Exit(130) from None


def _merged(options: "Tree", changes: list[str]) -> "Tree":
    """Merge the options that were given with `--set`, which wins."""
    from transduce.config.load import parse_override
    from transduce.config.schema import merge

    given = {
        section: {name: value for name, value in values.items() if value is not None}
        for section, values in options.items()
    }
    tree: dict[str, Any] = {section: values for section, values in given.items() if values}
    for change in changes:
        tree = merge(tree, parse_override(change))
    return tree
