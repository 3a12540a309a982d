"""Averages of weights: of the last checkpoints (§6.1), and one that moves with the training."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from transduce.models.base import Learnable
from transduce.training.checkpoint import Checkpoint


def averaged(checkpoints: Sequence[Checkpoint]) -> dict[str, Tensor]:
    """Return the mean of the weights; sums are in float64, one checkpoint in memory at a time."""
    assert checkpoints, "an average of nothing"
    first, *others = checkpoints
    weights = first.weights()
    sums = {name: tensor.double() for name, tensor in weights.items()}
    for checkpoint in others:
        for name, tensor in checkpoint.weights().items():
            sums[name] += tensor
    return {
        name: (total / len(checkpoints)).to(weights[name].dtype) for name, total in sums.items()
    }


class MovingAverage:
    """Follows the weights: after each step, decay times what it was and the rest of what is new."""

    def __init__(self, model: Learnable, decay: float) -> None:
        self._decay = decay
        self._parameters: list[Tensor] = list(model.parameters())
        names = [name for name, _ in model.named_parameters()]
        copies = [parameter.detach().clone() for parameter in self._parameters]
        self.weights: Mapping[str, Tensor] = dict(zip(names, copies, strict=True))

    @torch.no_grad()
    def follow(self) -> None:
        """Take a step's weights into account."""
        torch._foreach_lerp_(list(self.weights.values()), self._parameters, 1 - self._decay)
