"""Adam (§5.3), and its moments as named tensors that a checkpoint can hold."""

from collections.abc import Mapping

import torch
from torch import Tensor

from transduce.config.schema import TrainingConfig
from transduce.errors import InputError
from transduce.models.base import Learnable


def adam(model: Learnable, config: TrainingConfig) -> torch.optim.Adam:
    """Make the optimiser in one kernel, with its moments there from the start."""
    on_cuda = next(model.parameters()).is_cuda
    optimiser = torch.optim.Adam(
        model.parameters(),
        # The schedule sets it before every step; where a step is recorded, it must stay in place.
        lr=torch.zeros((), device="cuda") if on_cuda else 0.0,
        betas=(config.beta_1, config.beta_2),
        eps=config.epsilon,
        fused=True,
        capturable=on_cuda,
    )
    for parameter in model.parameters():
        optimiser.state[parameter] = {
            "step": torch.zeros((), device=parameter.device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
    return optimiser


def set_rate(optimiser: torch.optim.Adam, rate: float) -> None:
    """Set the learning rate of the next step."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


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
        self._parameters = list(model.parameters())
        sizes = [parameter.numel() for parameter in self._parameters]
        self.flat = torch.zeros(sum(sizes), device=self._parameters[0].device)
        parts = zip(self._parameters, torch.split(self.flat, sizes), strict=True)
        self._parts = [part.view_as(parameter) for parameter, part in parts]
        for parameter, part in zip(self._parameters, self._parts, strict=True):
            parameter.grad = part

    def add(self, loss: Tensor) -> None:
        """Add the gradients of a loss."""
        if not loss.is_cuda:
            torch.autograd.backward(loss)
            return
        # All at once at the end: one by one, a GPU takes four times as long.
        found = torch.autograd.grad(loss, self._parameters)
        torch._foreach_add_(self._parts, list(found))

    def clip(self, longest: float | None) -> Tensor:
        """Scale down to a norm of at most `longest`; return the norm that it was."""
        norm: Tensor = torch.linalg.vector_norm(self.flat)
        if longest is not None:
            self.flat.mul_((longest / norm).clamp(max=1.0))
        return norm
