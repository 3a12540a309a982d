"""Embeddings and the pre-softmax projection (§3.4)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Embedding(nn.Module):
    """One matrix for the source, for the target and, transposed, for the output."""

    bias: nn.Parameter | None

    def __init__(self, vocab_size: int, d_model: int, *, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        self.bias = nn.Parameter(torch.empty(vocab_size)) if bias else None

    def forward(
        self,
        ids: Tensor,  # [B, T]
    ) -> Tensor:
        """Look ids up and scale by sqrt(d_model)."""
        return F.embedding(ids, self.weight) * math.sqrt(self.weight.size(1))  # [B, T, d_model]

    def logits(
        self,
        x: Tensor,  # [B, T, d_model]
    ) -> Tensor:
        """Score every entry of the vocabulary, with the same matrix; a bias is a deviation."""
        return F.linear(x, self.weight, self.bias)  # [B, T, V]

    def with_bias(self, x: Tensor) -> Tensor:
        """Lengthen the last dimension so that the product with `projection` gives the logits."""
        return x if self.bias is None else F.pad(x, (0, 1), value=1.0)

    @property
    def projection(self) -> Tensor:
        """The matrix of the logits, whose last column is the bias where there is one."""
        if self.bias is None:
            return self.weight
        return torch.cat([self.weight, self.bias[:, None]], dim=1)
