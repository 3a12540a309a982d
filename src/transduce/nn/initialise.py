"""How the weights of a new model are drawn, with a check that none was left out.

The paper does not say; the original implementation drew every matrix as Glorot and Bengio propose
and the embedding with standard deviation d_model^-0.5. Modules of this package draw theirs in
`init_weights`; torch's own layers have `reset_parameters`.
"""

import math
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from transduce.errors import TransduceError


@runtime_checkable
class DrawsWeights(Protocol):
    """A module that draws all weights below it."""

    def init_weights(self) -> None:
        """Draw every weight of this module and its submodules from torch's random state."""
        ...


@torch.no_grad()
def initialise(model: nn.Module) -> None:
    """Draw every weight from torch's current random state.

    Raises an error that names every parameter drawn by neither `init_weights` nor
    `reset_parameters`.
    """
    for parameter in model.parameters():
        parameter.fill_(math.nan)
    _draw(model)
    undrawn = [name for name, parameter in model.named_parameters() if _has_nan(parameter)]
    if undrawn:
        raise TransduceError(
            f"nothing initialises {', '.join(undrawn)}: give the module that holds it a method "
            "init_weights() that draws it"
        )


def _draw(module: nn.Module) -> None:
    if isinstance(module, DrawsWeights):
        module.init_weights()
        return
    reset = getattr(module, "reset_parameters", None)
    if reset is not None:
        reset()
    for child in module.children():
        _draw(child)


def _has_nan(parameter: nn.Parameter) -> bool:
    return not parameter.is_meta and bool(parameter.isnan().any())


def keep_variance_(projection: nn.Linear) -> None:
    """Give outputs the variance of the inputs: weights uniform with variance 1 / fan_in."""
    bound = math.sqrt(3 / projection.in_features)
    nn.init.uniform_(projection.weight, -bound, bound)
    _zero_bias(projection)


def glorot_(projection: nn.Linear) -> None:
    """Balance both directions: weights uniform with variance 2 / (fan_in + fan_out)."""
    nn.init.xavier_uniform_(projection.weight)
    _zero_bias(projection)


def _zero_bias(projection: nn.Linear) -> None:
    if projection.bias is not None:
        nn.init.zeros_(projection.bias)
