"""The settings in which the rows of a sweep differ, as columns in the order of Table 3."""

from collections.abc import Iterator, Sequence
from typing import Any

from transduce.config.schema import Config

_SHOWN = {"n_layers", "n_encoder_layers", "n_decoder_layers", "experts", "positions", "eps_ls"}
"""Settings that the columns of Table 3 show under other names."""

_NOT_SHOWN = {"run.seed", "training.steps", "training.epochs", "training.minutes"}
"""Seeds and budgets, which have columns of their own."""


def settings_columns(configs: Sequence[Config], base: int) -> dict[str, list[str]]:
    """Return the columns in which rows differ; cells that are as in the base are blank.

    `base` is the place of the row that states everything.
    """
    columns = {
        **_table_columns([_as_table_3(config) for config in configs]),
        **_table_columns([_others(config) for config in configs]),
    }
    return {
        heading: [
            "" if place != base and cell == cells[base] else cell
            for place, cell in enumerate(cells)
        ]
        for heading, cells in columns.items()
        if len(set(cells)) > 1
    }


def _table_columns(rows: Sequence[dict[str, str]]) -> dict[str, list[str]]:
    headings = dict.fromkeys(heading for row in rows for heading in row)
    return {heading: [row.get(heading, "") for row in rows] for heading in headings}


def _as_table_3(config: Config) -> dict[str, str]:
    return (
        {"kind": config.model.kind} | config.model.columns() | {"ε_ls": f"{config.training.eps_ls}"}
    )


def _others(config: Config) -> dict[str, str]:
    """Return the given settings that Table 3 has no column for, by their full names."""
    shown = (
        {heading.lower() for heading in config.model.columns()}
        | _SHOWN
        | {"kind", "vocab_size", "src_vocab_size"}
    )
    stated = config.model_dump(mode="json", exclude_unset=True)
    leaves = {
        name: text
        for name, text in _leaves(stated)
        if name not in _NOT_SHOWN and name.rpartition(".")[2] not in shown
    }
    sizes = {
        f"model.{name}": f"{size:,}"
        for name in ("vocab_size", "src_vocab_size")
        if (size := getattr(config.model, name)) is not None
    }
    return leaves | sizes


def _leaves(tree: dict[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{name}.")
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield f"{above}{name}", shown
