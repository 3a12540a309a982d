"""Averages of weights: over the last checkpoints (§6.1), and an exponential moving average."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from transduce.models.base import Seq2Seq
from transduce.training.run.checkpoint import Checkpoint


def averaged(checkpoints: Sequence[Checkpoint]) -> dict[str, Tensor]:
    """Return the mean of the weights, summed in float64 with one checkpoint in memory at a time."""
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
    """After each step: decay times the average before, plus (1 - decay) times the new weights."""

    def __init__(self, model: Seq2Seq, decay: float) -> None:
        self._decay = decay
        self._parameters: list[Tensor] = list(model.parameters())
        self._averages = [parameter.detach().clone() for parameter in self._parameters]
        average_of = {id(p): a for p, a in zip(self._parameters, self._averages, strict=True)}
        named = model.named_parameters(remove_duplicate=False)  # tied ones under all their names
        self.weights: Mapping[str, Tensor] = {name: average_of[id(p)] for name, p in named}

    @torch.no_grad()
    def update(self) -> None:
        """Add the weights after a step to the average."""
        torch._foreach_lerp_(self._averages, self._parameters, 1 - self._decay)
