"""Schedule-free Adam (Defazio et al. 2024): no schedule that must know the end of a run.

z is trained as by Adam without momentum, at a constant rate after the warm-up. x is a weighted mean
of all z so far: it is scored and saved. Gradients are taken between both, at y = (1 − β1) z + β1 x,
which the model has in training.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from transduce.config.schema import TrainingConfig
from transduce.models.base import Seq2Seq
from transduce.training.step.optimiser import Gradients


class ScheduleFreeAdam:
    """Keeps z, x and the second moments; y is computed anew from z and x after each step.

    So a run that goes on from x and z of a checkpoint has the same y, to the bit.
    """

    def __init__(self, model: Seq2Seq, config: TrainingConfig, gradients: Gradients) -> None:
        named = dict(model.named_parameters())
        self._names = list(named)
        self._y: list[Tensor] = list(named.values())
        self._z, self._x = ([p.detach().clone() for p in self._y] for _ in range(2))
        self._squares = [torch.zeros_like(p) for p in self._y]
        self._gradients = gradients
        self._beta_1, self._beta_2, self._epsilon = config.beta_1, config.beta_2, config.epsilon
        device = gradients.flat.device
        self._rate, self._steps, self._weight = (torch.zeros((), device=device) for _ in range(3))

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the next step."""
        self._rate.fill_(rate)

    @torch.no_grad()
    def step(self, skipped: Tensor) -> None:
        """Update z, x and y, unless `skipped` is 1; nothing changes where it is."""
        self._gradients.clear_if(skipped)
        taken = 1 - skipped
        self._steps += taken
        self._weight += self._rate.square() * taken
        gradients = [p.grad for p in self._y if p.grad is not None]
        squared = torch._foreach_mul(gradients, gradients)
        for mean, square in zip(self._squares, squared, strict=True):
            mean.lerp_(square, (1 - self._beta_2) * taken)
        corrected = 1 - self._beta_2 ** self._steps.clamp(min=1)
        sizes = torch._foreach_sqrt(torch._foreach_div(self._squares, corrected))
        torch._foreach_add_(sizes, self._epsilon)
        directions = torch._foreach_div(gradients, sizes)
        torch._foreach_mul_(directions, self._rate * taken)
        torch._foreach_sub_(self._z, directions)
        share = self._rate.square() * taken / self._weight.clamp(min=torch.finfo().tiny)
        for mean, z in zip(self._x, self._z, strict=True):
            mean.lerp_(z, share)
        self._train()

    def tensors(self) -> dict[str, Tensor]:
        """Return z and the second moments by parameter name, and two counts; x is the weights."""
        parts = {"z": self._z, "exp_avg_sq": self._squares}
        named = {
            f"{kind}.{name}": tensor
            for kind, tensors in parts.items()
            for name, tensor in zip(self._names, tensors, strict=True)
        }
        return named | {"step": self._steps, "weight": self._weight}

    @torch.no_grad()
    def weights_restored(self) -> None:
        """Take the weights of the model for x, and give it y."""
        torch._foreach_copy_(self._x, self._y)
        self._train()

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Let the model have x, in a `with` block."""
        with torch.no_grad():
            torch._foreach_copy_(self._y, self._x)
        try:
            yield
        finally:
            self._train()

    @torch.no_grad()
    def _train(self) -> None:
        torch._foreach_copy_(self._y, torch._foreach_lerp(self._z, self._x, self._beta_1))
