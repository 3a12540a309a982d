"""Adam (§5.3), its moments as named tensors for checkpoints, and all gradients in one tensor."""

from collections.abc import Mapping

import torch
from torch import Tensor

from transduce.config.schema import TrainingConfig
from transduce.errors import InputError
from transduce.models.base import Seq2Seq


def adam(model: Seq2Seq, config: TrainingConfig) -> torch.optim.Adam:
    """Create fused Adam with its moments already allocated, so that they can be restored."""
    on_cuda = next(model.parameters()).is_cuda
    optimiser = torch.optim.Adam(
        model.parameters(),
        # The schedule sets it before every step; a recorded step needs it at a fixed address.
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


def moments(model: Seq2Seq, optimiser: torch.optim.Adam) -> dict[str, Tensor]:
    """Return the optimiser's tensors by parameter name: the tensors themselves, not copies."""
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
            f"the checkpoint is not of this model: {name} has shape {found.get(name)} there, not "
            f"{shapes.get(name)}; if config.yaml was changed, change it back"
        )
    for name, tensor in tensors.items():
        tensor.copy_(values[name])


class Gradients:
    """The gradients of all parameters as views of one flat tensor.

    Clearing, norm, scaling and summing over processes are then one operation each.
    """

    def __init__(self, model: Seq2Seq) -> None:
        self._parameters = list(model.parameters())
        sizes = [parameter.numel() for parameter in self._parameters]
        self.flat = torch.zeros(sum(sizes), device=self._parameters[0].device)
        parts = zip(self._parameters, torch.split(self.flat, sizes), strict=True)
        self._parts = [part.view_as(parameter) for parameter, part in parts]
        for parameter, part in zip(self._parameters, self._parts, strict=True):
            parameter.grad = part
        trained = [i for i, parameter in enumerate(self._parameters) if parameter.requires_grad]
        self._trained = [self._parameters[i] for i in trained]
        self._trained_parts = [self._parts[i] for i in trained]

    def add(self, loss: Tensor) -> None:
        """Add the gradients of a loss."""
        if not loss.is_cuda:
            torch.autograd.backward(loss)
            return
        # Added all at once at the end: one by one, a GPU takes four times as long.
        found = torch.autograd.grad(loss, self._trained, allow_unused=True)
        pairs = zip(self._trained_parts, found, strict=True)
        used = [(part, gradient) for part, gradient in pairs if gradient is not None]
        torch._foreach_add_([part for part, _ in used], [gradient for _, gradient in used])

    def clip(self, max_norm: float | None) -> Tensor:
        """Scale down to a norm of at most `max_norm`, if given; return the norm before."""
        norm: Tensor = torch.linalg.vector_norm(self.flat)
        if max_norm is not None:
            self.flat.mul_((max_norm / norm).clamp(max=1.0))
        return norm
