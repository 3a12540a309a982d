"""`transduce presets`: the shapes that have a name."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transduce.config.schema import Config


def presets() -> None:
    """List the presets as the paper's Table 3 does; blank means as in base."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from transduce.config.presets import PRESETS

    rows = {name: _columns(preset()) for name, preset in PRESETS.items()}
    table = Table("preset", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for heading in rows["base"]:
        table.add_column(heading, justify="right")
    for name, row in rows.items():
        as_in_base = {} if name == "base" else rows["base"]
        cells = ["" if text == as_in_base.get(heading) else text for heading, text in row.items()]
        table.add_row(name, *cells)
    Console(highlight=False).print(table)


def _columns(config: "Config") -> dict[str, str]:
    m, t = config.model, config.training
    return {
        "N": f"{m.n_layers}",
        "d_model": f"{m.d_model:,}",
        "d_ff": f"{m.d_ff:,}",
        "h": f"{m.h}",
        "d_k": f"{m.d_k}",
        "d_v": f"{m.d_v}",
        "P_drop": f"{m.p_drop}",
        "ε_ls": f"{t.eps_ls}",
        "positions": m.positions,
        "steps": f"{t.steps // 1000}K",
    }
