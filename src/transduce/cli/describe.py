"""`transduce describe`: the parts of a model and what they cost."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.terminal.completion import complete_preset
from transduce.cli.terminal.options import SetOption

LENGTH = 32

if TYPE_CHECKING:
    from rich.table import Table

    from transduce.analysis.cost import Cost
    from transduce.config.schema import Config


def describe(
    source: Annotated[
        str,
        typer.Argument(
            metavar="PRESET|CONFIG.yaml|MODEL",
            help="The name of a preset, a settings file, or a model folder, run or checkpoint.",
            autocompletion=complete_preset,
        ),
    ],
    changes: SetOption = None,
    length: Annotated[
        int | None,
        typer.Option(
            "--length",
            min=1,
            max=100_000,
            help="Tokens of source and of target, by default 32, or fewer if MODEL reads fewer.",
        ),
    ] = None,
    as_yaml: Annotated[
        bool,
        typer.Option("--yaml", help="Print every setting with its description, to save and edit."),
    ] = False,
) -> None:
    """Show the layers of a model with their parameters, operations and memory.

    'transduce presets' lists the kinds of model and their presets.
    """
    from transduce.config.load import load_config, to_yaml

    config = load_config(_settings_of(source), changes or [])
    if as_yaml:
        typer.echo(to_yaml(config), nl=False)
        return

    from rich.console import Console

    from transduce.analysis.cost import cost_of
    from transduce.config.presets import preset_named

    if length is None:
        length = min(LENGTH, config.model.max_length or LENGTH)
    cost = cost_of(config.model, length=length)
    base = preset_named("base").with_changes({"model": {"max_positions": max(length, 1024)}})
    base_cost = cost_of(base.model, length=length)
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(_headline(source, config))
    console.print(_table(cost, base_cost))
    console.print(_footnotes(cost, length))


def _settings_of(source: str) -> str:
    """Return where the settings are: for a checkpoint, the folder of its run.

    For a run that is not over, say which weights other commands would take.
    """
    from transduce.errors import InputError
    from transduce.models.model_files import find_model, settings_folder
    from transduce.models.other_formats import check_has_settings

    place = Path(source)
    of_run = settings_folder(place)
    if of_run == place and not os.path.lexists(source):
        return source
    if place.is_dir() or place.suffix == ".safetensors":
        check_has_settings(place)
    if of_run == place and not place.is_dir():
        return source
    try:
        note = find_model(place).note
    except InputError as nothing_trained:
        note = str(nothing_trained)
    if note is not None:
        typer.echo(note, err=True)
    return source if of_run == place else str(of_run)


def _headline(source: str, config: "Config") -> str:
    return f"{source}: {config.model.summary()}, {config.model.sizes()} entries"


def _table(cost: "Cost", base_cost: "Cost") -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table("part", box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("parameters", "operations/token", "float32 memory"):
        table.add_column(heading, justify="right")
    for part in cost.parts:
        name = "  " * part.depth + part.name
        table.add_row(name, *_cells(part.parameters, part.operations_per_token))
    table.add_section()
    table.add_row("total", *_cells(cost.parameters, cost.operations_per_token))
    if cost.used_parameters != cost.parameters:
        table.add_row("used by each token", *_cells(cost.used_parameters, 0))
    table.add_row(
        "difference from base",
        *_cells(
            cost.parameters - base_cost.parameters,
            cost.operations_per_token - base_cost.operations_per_token,
            sign="+",
        ),
    )
    return table


def _cells(parameters: int, operations: float, *, sign: str = "") -> tuple[str, str, str]:
    return (
        f"{parameters:{sign},}",
        f"{operations / 1e6:{sign},.1f} M" if operations else "",
        f"{4 * parameters / 2**20:{sign},.1f} MiB" if parameters else "",
    )


def _footnotes(cost: "Cost", length: int) -> str:
    training = f"{cost.training_bytes / 2**20:,.1f} MiB"
    activations = f"{cost.activation_bytes_per_token / 2**10:,.1f} KiB"
    per_src, per_tgt, fixed = (
        f"{size / 2**10:,.1f} KiB"
        for size in (cost.cache.per_src_token, cost.cache.per_tgt_token, cost.cache.per_hypothesis)
    )
    return (
        "Operations: multiplications and additions of matrix products in a forward pass, per"
        f" source and target token of sentences of {length} tokens.\n"
        f"Training, in float32: {training} for weights, gradients and Adam's two moments, and"
        f" {activations} of activations per source and target token, before the loss.\n"
        f"Decoding, in float32: {per_src} per source token, {per_tgt} per token of a hypothesis,"
        f" and {fixed} per hypothesis of any length."
    )
