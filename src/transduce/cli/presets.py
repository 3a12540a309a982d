"""`transduce presets`: the presets of every kind of model."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from transduce.config.schema import Config


def presets() -> None:
    """List the presets of each kind of model; those of the Transformer are Table 3's rows.

    A blank cell has the value of base, or of the first row if there is no base.
    """
    from rich.console import Console

    from transduce.config.kinds import kind_names
    from transduce.config.presets import presets_of
    from transduce.errors import ConfigError

    console = Console(highlight=False)
    for number, kind in enumerate(kind_names()):
        if number:
            console.print()
        console.print(f"model.kind={kind}")
        try:
            rows = {name: preset() for name, preset in presets_of(kind).items()}
        except ConfigError as broken:
            console.print(str(broken), markup=False)
            continue
        console.print(_table(rows) if rows else "no presets: all settings have their defaults")


def _table(presets: "dict[str, Config]") -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    rows = {name: _columns(config) for name, config in presets.items()}
    reference = "base" if "base" in rows else next(iter(rows))
    table = Table("preset", box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in rows[reference]:
        table.add_column(heading, justify="right")
    for name, row in rows.items():
        same = {} if name == reference else rows[reference]
        cells = ["" if text == same.get(heading) else text for heading, text in row.items()]
        table.add_row(name, *cells)
    return table


def _columns(config: "Config") -> dict[str, str]:
    training = config.training
    return config.model.columns() | {
        "ε_ls": f"{training.eps_ls}",
        "steps": f"{training.steps / 1000:g}K",
    }
