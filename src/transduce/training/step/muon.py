"""Muon (Jordan et al. 2024): momentum, made orthogonal, for matrices; Adam for all other weights.

The update of a matrix is U Vᵀ, where U S Vᵀ is its momentum: all its directions change equally. A
few Newton–Schulz iterations come close enough to it. Scaled by 0.2 · sqrt(max(rows, columns)), an
update has the size of Adam's (Liu et al. 2025), so that one learning rate serves both.

torch has `torch.optim.Muon`, with the same iteration and scale. This one orthogonalises all
matrices of a shape at once, decides on the device whether a step is taken, and can be recorded.
"""

import math
from collections import defaultdict
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from transduce.config.schema import Config, TrainingConfig
from transduce.errors import ConfigError
from transduce.models.base import Seq2Seq
from transduce.models.build import assemble
from transduce.training.step.optimiser import Gradients, adam_of, moments, set_rate, step_unless

MOMENTUM = 0.95
ITERATIONS = 5
A, B, C = 3.4445, -4.7750, 2.0315
"""The polynomial of the iteration: it takes singular values between 0 and 1 to about 1, quickly."""
ADAM_SIZE = 0.2
"""The root mean square of an update of Adam, roughly."""


@torch.no_grad()
def orthogonalise(matrices: Tensor) -> Tensor:
    """Replace the singular values of matrices, [n, rows, columns], by numbers near 1.

    After five iterations they lie between about 0.7 and 1.2. Products are in bfloat16 on a CUDA
    device, where that is enough and fast.
    """
    dtype = torch.bfloat16 if matrices.is_cuda else matrices.dtype
    is_tall = matrices.size(-2) > matrices.size(-1)
    x = (matrices.mT if is_tall else matrices).to(dtype)
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(ITERATIONS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=B, alpha=C), x, beta=A)
    return (x.mT if is_tall else x).to(matrices.dtype)


def check_has_matrices(config: Config) -> None:
    """Raise if the settings ask for Muon, but the model has no matrices for it."""
    if config.training.optimiser != "muon":
        return
    with torch.device("meta"):
        model = assemble(config.model)
    if not matrices_of(model):
        raise ConfigError(
            "training.optimiser=muon is for the matrices of linear layers, but a model of the kind "
            f"{config.model.kind} has none between embeddings and output; use adam"
        )


def matrices_of(model: Seq2Seq) -> set[nn.Parameter]:
    """Return the matrices of linear layers; that of the output is none of them, as in the paper."""
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    output = model.projection
    return {m.get_parameter("weight") for m in linear if m.weight is not output}


class Muon:
    """Muon for `matrices_of` the model; Adam for embeddings, output, norms, biases and the rest."""

    def __init__(self, model: Seq2Seq, config: TrainingConfig, gradients: Gradients) -> None:
        chosen = matrices_of(model)
        self._model, self._gradients = model, gradients
        self._names = {p: name for name, p in model.named_parameters() if p in chosen}
        self._momentum = {p: torch.zeros_like(p) for p in self._names}
        by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
        for parameter in self._names:
            by_shape[parameter.shape].append(parameter)
        self._groups = list(by_shape.values())
        self._adam = adam_of([p for p in model.parameters() if p not in chosen], config)
        self._rate = torch.zeros((), device=gradients.flat.device)

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the next step, of both."""
        self._rate.fill_(rate)
        set_rate(self._adam, rate)

    @torch.no_grad()
    def step(self, skipped: Tensor) -> None:
        """Update the weights, unless `skipped` is 1."""
        step_unless(self._adam, skipped)
        self._gradients.clear_if(skipped)
        taken = 1 - skipped
        for parameters in self._groups:
            self._update(parameters, taken)

    def _update(self, parameters: list[nn.Parameter], taken: Tensor) -> None:
        """Update the matrices of one shape; where `taken` is 0, by nothing."""
        gradients = torch.stack([p.grad for p in parameters if p.grad is not None])
        held = torch.stack([self._momentum[p] for p in parameters])
        momentum = torch.lerp(held, gradients, (1 - MOMENTUM) * taken)
        updates = orthogonalise(torch.lerp(gradients, momentum, MOMENTUM))  # Nesterov's
        size = ADAM_SIZE * math.sqrt(max(gradients.shape[-2:]))
        steps = updates * (self._rate * taken * size)
        matrices: list[Tensor] = [*parameters]
        torch._foreach_copy_([self._momentum[p] for p in parameters], momentum.unbind())
        torch._foreach_sub_(matrices, steps.unbind())

    def tensors(self) -> dict[str, Tensor]:
        """Return the momentum of matrices and Adam's moments of the rest, by parameter name."""
        named = {f"momentum.{name}": self._momentum[p] for p, name in self._names.items()}
        return named | moments(self._model, self._adam)

    def weights_restored(self) -> None:
        """Go on: there is nothing else to restore."""

    def evaluating(self) -> AbstractContextManager[None]:
        """Leave the weights as they are."""
        return nullcontext()
