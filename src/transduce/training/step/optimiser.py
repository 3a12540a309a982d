"""Adam (§5.3), its moments as named tensors for checkpoints, and all gradients in one tensor.

`training.optimiser` may name another one (`muon`, `schedule_free`): each is an `Optimiser`.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor, nn

from transduce.config.schema import TrainingConfig
from transduce.errors import InputError
from transduce.models.base import Seq2Seq


class Optimiser(Protocol):
    """What a training step and a session ask of an optimiser."""

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the next step."""
        ...

    def step(self, skipped: Tensor) -> None:
        """Update the weights by their gradients, unless `skipped`, on the device, is 1."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Return all that a checkpoint keeps beside the weights: the tensors, not copies."""
        ...

    def weights_restored(self) -> None:
        """Go on from the weights that a checkpoint was read into, with its `tensors`."""
        ...

    def evaluating(self) -> AbstractContextManager[None]:
        """Let the model have the weights that are scored and saved, in a `with` block."""
        ...


class PlainAdam:
    """The paper's: the weights that are trained are those that are scored."""

    def __init__(self, model: Seq2Seq, config: TrainingConfig) -> None:
        self._model = model
        self._adam = adam(model, config)

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the next step."""
        set_rate(self._adam, rate)

    def step(self, skipped: Tensor) -> None:
        """Update the weights, unless `skipped` is 1."""
        step_unless(self._adam, skipped)

    def tensors(self) -> dict[str, Tensor]:
        """Return the moments by parameter name."""
        return moments(self._model, self._adam)

    def weights_restored(self) -> None:
        """Go on: there is nothing else to restore."""

    def evaluating(self) -> AbstractContextManager[None]:
        """Leave the weights as they are."""
        return nullcontext()


def adam(model: Seq2Seq, config: TrainingConfig) -> torch.optim.Adam:
    """Create fused Adam with its moments already allocated, so that they can be restored."""
    return adam_of(model.parameters(), config)


def adam_of(parameters: Iterable[nn.Parameter], config: TrainingConfig) -> torch.optim.Adam:
    """Create fused Adam for some parameters, with its moments already allocated."""
    trained = list(parameters)
    on_cuda = trained[0].is_cuda
    optimiser = torch.optim.Adam(
        trained,
        # The schedule sets it before every step; a recorded step needs it at a fixed address.
        lr=torch.zeros((), device="cuda") if on_cuda else 0.0,
        betas=(config.beta_1, config.beta_2),
        eps=config.epsilon,
        fused=True,
        capturable=on_cuda,
    )
    for parameter in trained:
        optimiser.state[parameter] = {
            "step": torch.zeros((), device=parameter.device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
    return optimiser


def step_unless(optimiser: torch.optim.Adam, skipped: Tensor) -> None:
    """Take a step unless `skipped` is 1: the fused kernel looks, so the host need not wait."""
    optimiser.found_inf = skipped  # type: ignore[attr-defined]
    optimiser.grad_scale = None  # type: ignore[attr-defined]
    optimiser.step()


def set_rate(optimiser: torch.optim.Adam, rate: float) -> None:
    """Set the learning rate of the next step."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def moments(model: Seq2Seq, optimiser: torch.optim.Adam) -> dict[str, Tensor]:
    """Return Adam's tensors by parameter name: the tensors themselves, not copies."""
    return {
        f"{kind}.{name}": tensor
        for name, parameter in model.named_parameters()
        if parameter in optimiser.state
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

    def clear_if(self, skipped: Tensor) -> None:
        """Set all gradients to 0 if `skipped`, on the device, is 1: they may not be finite."""
        self.flat.masked_fill_(skipped.bool(), 0.0)
