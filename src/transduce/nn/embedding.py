"""Embeddings and the pre-softmax projection (§3.4)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Embedding(nn.Module):
    """One matrix for the source, for the target and, transposed, for the output."""

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))

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
        """Score every entry of the vocabulary, with the same matrix and no bias."""
        return F.linear(x, self.weight)  # [B, T, V]
