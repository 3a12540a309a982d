"""int8 weights for the CPU: for models that only translate.

A matrix has a scale for each output, and each row of the input one of its own, found as it comes:
so what a row becomes does not depend on the other rows of a batch. oneDNN multiplies the integers,
exactly. torch has the operators for its own compiler, under private names.
"""

from typing import Any, Self

import torch
from torch import Tensor, nn

from transduce.nn.embedding import Embedding, SourceEmbedding

LARGEST = 127
MIDDLE = 128
"""Inputs are unsigned, as oneDNN multiplies them fast: this is their zero."""
SMALLEST = 1e-12
"""A row of zeros has this largest number."""


def can_quantize() -> bool:
    """Return whether torch and the processor multiply int8 fast and exactly."""
    has_instructions = getattr(torch.cpu, "_is_vnni_supported", lambda: False)
    return bool(has_instructions()) and all(
        hasattr(torch.ops.onednn, name) for name in ("qlinear_prepack", "qlinear_pointwise")
    )


def quantize(model: nn.Module) -> None:
    """Replace every projection of a float32 model on the CPU by one with int8 weights."""
    for module in list(model.modules()):
        for name, part in list(module.named_children()):
            if isinstance(part, nn.Linear):
                setattr(module, name, Int8Linear.of(part.weight, part.bias))
            elif isinstance(part, Embedding) and not isinstance(part, SourceEmbedding):
                setattr(module, name, Int8Embedding(part))


class Int8Linear(nn.Module):
    """x W^T + b."""

    def __init__(self, int8: Tensor, scales: Tensor, bias: Tensor | None) -> None:
        """Take whole numbers, [out, in], and what they are multiplied with, [out]."""
        super().__init__()
        self._int8, self._scales, self._bias = int8, scales, bias
        self._packed = torch.ops.onednn.qlinear_prepack(int8, None)
        self._zeros = torch.zeros(len(scales), dtype=torch.int32)

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None = None) -> Self:
        """Round the weights to the nearest of 255 numbers."""
        weight = weight.detach()
        scales = weight.abs().amax(dim=1).clamp_min(SMALLEST) / LARGEST
        int8 = (weight / scales[:, None]).round().to(torch.int8)
        return cls(int8, scales, None if bias is None else bias.detach())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as plain numbers, which are packed again when they are loaded."""
        return type(self), (self._int8, self._scales, self._bias)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        del fn, recurse
        raise TypeError("an int8 model stays on the CPU: load the model again")

    def forward(self, x: Tensor) -> Tensor:
        """Project the last dimension of x."""
        rows = x.reshape(-1, x.size(-1))  # [N, in]
        scale = rows.abs().amax(dim=1, keepdim=True).clamp_min(SMALLEST) / LARGEST  # [N, 1]
        unsigned = (rows / scale).round_().add_(MIDDLE).to(torch.uint8)
        output: Tensor = torch.ops.onednn.qlinear_pointwise(
            *(unsigned, 1.0, MIDDLE, self._packed, self._scales, self._zeros, None),
            *(1.0, 0, torch.float32, "none", [], ""),
        )
        output.mul_(scale)
        if self._bias is not None:
            output.add_(self._bias)
        return output.view(*x.shape[:-1], -1)


class Int8Embedding(Embedding):
    """Looks up in the original matrix, and projects with int8."""

    def __init__(self, embedding: Embedding) -> None:
        nn.Module.__init__(self)
        self.weight, self.bias = embedding.weight, embedding.bias
        self.output_weight = embedding.output_weight  # for `projection`, which shortlists narrow
        self.scale, self.std = embedding.scale, embedding.std
        self._projection = Int8Linear.of(embedding.output, embedding.bias)

    def logits(self, x: Tensor) -> Tensor:
        """Score every entry of the vocabulary."""
        scores: Tensor = self._projection(x)
        return scores
