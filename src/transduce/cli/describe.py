"""`transduce describe`: a model's parts and what they cost."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from transduce.analysis.cost import Cost
    from transduce.config.schema import Config


def describe(
    source: Annotated[
        str,
        typer.Argument(
            metavar="PRESET|CONFIG.yaml|MODEL",
            help="A preset's name, a settings file, or the folder of a model.",
        ),
    ],
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Change a setting, such as model.d_model=256."
        ),
    ] = None,
    length: Annotated[
        int,
        typer.Option("--length", min=1, max=100_000, help="Tokens a sentence, source and target."),
    ] = 32,
    as_yaml: Annotated[
        bool,
        typer.Option("--yaml", help="Print every setting with what it means, to save and edit."),
    ] = False,
) -> None:
    """Show a model's layers with their parameters, operations and memory."""
    from transduce.config.load import load_config, to_yaml

    config = load_config(source, changes or [])
    if as_yaml:
        typer.echo(to_yaml(config), nl=False)
        return

    from rich.console import Console

    from transduce.analysis.cost import cost_of
    from transduce.config.presets import base

    cost = cost_of(config.model, length=length)
    reaching = base().with_changes({"model": {"max_positions": max(length, 1024)}})
    base_cost = cost_of(reaching.model, length=length)
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(_headline(source, config))
    console.print(_table(cost, base_cost))
    console.print(_footnotes(cost, length))


def _headline(source: str, config: "Config") -> str:
    m = config.model
    return (
        f"{source}: Transformer, {m.n_layers}+{m.n_layers} layers, d_model {m.d_model}, "
        f"d_ff {m.d_ff}, h {m.h}, d_k {m.d_k}, d_v {m.d_v}, "
        f"{m.norm}-norm, {m.positions} positions, {m.vocab_size:,} entries"
    )


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
    cache = f"{cost.cache_bytes_per_token / 2**10:,.1f} KiB"
    return (
        "Operations: multiplications and additions in matrix products, forward, for one source"
        f" and one target token in sentences of {length} tokens.\n"
        f"Training, in float32: {training} for weights, gradients and Adam's two moments, and"
        f" {activations} of activations for each such pair of tokens, before the loss.\n"
        f"Decoding, in float32: {cache} for each source token and for each token of a hypothesis."
    )
