"""Options of commands that train models as one of their stages."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.errors import InputError

if TYPE_CHECKING:
    from transduce.config.schema import Tree

MinutesOption = Annotated[
    float | None, typer.Option(help="Maximum minutes of training, of each model.")
]
StepsOption = Annotated[int | None, typer.Option(min=1, help="Maximum steps, of each model.")]
EpochsOption = Annotated[float | None, typer.Option(help="Maximum epochs, of each model.")]
SeedOption = Annotated[int | None, typer.Option(help="Random seed.")]


def training_settings(
    changes: list[str],
    *,
    minutes: float | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    seed: int | None = None,
) -> "Tree":
    """Merge the options that were given with `--set`, which wins."""
    from transduce.config.load import parse_override
    from transduce.config.schema import merge

    for name, value in {"minutes": minutes, "epochs": epochs}.items():
        if value is not None and not value > 0:
            raise InputError(f"--{name} {value:g}: must be more than 0")
    options = {"minutes": minutes, "steps": steps, "epochs": epochs}
    given = {name: value for name, value in options.items() if value is not None}
    tree: dict[str, Any] = {"training": given} if given else {}
    if seed is not None:
        tree["run"] = {"seed": seed}
    for change in changes:
        tree = merge(tree, parse_override(change))
    return tree
