"""Adam (§5.3), and its moments as named tensors that a checkpoint can hold."""

from collections.abc import Mapping

import torch
from torch import Tensor

from transduce.config.schema import TrainingConfig
from transduce.errors import InputError
from transduce.models.base import Learnable


def adam(model: Learnable, config: TrainingConfig) -> torch.optim.Adam:
    """Make the optimiser in one kernel, with its moments there from the start."""
    optimiser = torch.optim.Adam(
        model.parameters(),
        lr=0.0,  # the schedule sets it before every step
        betas=(config.beta_1, config.beta_2),
        eps=config.epsilon,
        fused=True,
    )
    for parameter in model.parameters():
        optimiser.state[parameter] = {
            "step": torch.zeros((), device=parameter.device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
    return optimiser


def moments(model: Learnable, optimiser: torch.optim.Adam) -> dict[str, Tensor]:
    """Name the optimiser's tensors by parameter; they are its own, not copies."""
    return {
        f"{kind}.{name}": tensor
        for name, parameter in model.named_parameters()
        for kind, tensor in optimiser.state[parameter].items()
    }


@torch.no_grad()
def overwrite(tensors: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Copy values into tensors of the same names and shapes."""
    shapes, found = ({n: tuple(t.shape) for n, t in each.items()} for each in (tensors, values))
    if shapes != found:
        name = min(n for n in shapes | found if shapes.get(n) != found.get(n))
        raise InputError(
            f"a checkpoint is not of this model: {name} is {found.get(name)} there, not "
            f"{shapes.get(name)}; if config.yaml was changed, change it back"
        )
    for name, tensor in tensors.items():
        tensor.copy_(values[name])


class Gradients:
    """The gradients of all parameters, side by side in one tensor.

    So they are cleared, measured, scaled and summed over processes in one operation each.
    """

    def __init__(self, model: Learnable) -> None:
        parameters = list(model.parameters())
        sizes = [parameter.numel() for parameter in parameters]
        self.flat = torch.zeros(sum(sizes), device=parameters[0].device)
        for parameter, part in zip(parameters, torch.split(self.flat, sizes), strict=True):
            parameter.grad = part.view_as(parameter)

    def clip(self, longest: float | None) -> Tensor:
        """Scale down to a norm of at most `longest`; return the norm that it was."""
        norm: Tensor = torch.linalg.vector_norm(self.flat)
        if longest is not None:
            self.flat.mul_((longest / norm).clamp(max=1.0))
        return norm
