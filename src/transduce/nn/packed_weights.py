"""Weights reordered for the matrix kernels of the CPU: for models that only translate.

A product with few rows spends most of its time reading weights, and reads them fastest in the order
of the kernel. oneDNN keeps them in that order. torch has its operators, made for its own compiler,
under private names: where they are missing, nothing is packed.
"""

from typing import Any, Self

import torch
from torch import Tensor, nn

from transduce.nn.embedding import Embedding, SourceEmbedding


def can_pack() -> bool:
    """Return whether this build of torch has oneDNN and its packed products."""
    return torch.backends.mkldnn.is_available() and all(  # type: ignore[no-untyped-call]
        hasattr(torch.ops.mkldnn, name) for name in ("_reorder_linear_weight", "_linear_pointwise")
    )


def pack(model: nn.Module) -> None:
    """Replace every projection of a float32 model on the CPU by one with packed weights.

    The model then computes the same, faster, but can neither be trained nor saved.
    """
    for module in list(model.modules()):
        for name, part in list(module.named_children()):
            if isinstance(part, nn.Linear):
                setattr(module, name, PackedLinear(part.weight, part.bias))
            elif isinstance(part, Embedding) and not isinstance(part, SourceEmbedding):
                setattr(module, name, PackedEmbedding(part))


class PackedLinear(nn.Module):
    """x W^T + b."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None)
        self._bias = None if bias is None else bias.detach()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as plain weights, which are packed again when they are loaded."""
        return PackedLinear, (self._weight.to_dense(), self._bias)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        del fn, recurse
        raise TypeError("a packed model stays on the CPU in float32: load the model again")

    def forward(self, x: Tensor, *, relu: bool = False) -> Tensor:
        """Project the last dimension of x; with `relu`, apply max(0, ·) in the same pass."""
        output: Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self._weight, self._bias, "relu" if relu else "none", [], ""
        )
        return output


class PackedEmbedding(Embedding):
    """Looks up in the original matrix, and projects with packed weights."""

    def __init__(self, embedding: Embedding) -> None:
        nn.Module.__init__(self)
        self.weight, self.bias = embedding.weight, embedding.bias
        self.output_weight = embedding.output_weight  # for `projection`, which shortlists narrow
        self.scale, self.std = embedding.scale, embedding.std
        self._projection = PackedLinear(embedding.output, embedding.bias)

    def logits(self, x: Tensor) -> Tensor:
        """Score every entry of the vocabulary."""
        scores: Tensor = self._projection(x)
        return scores
