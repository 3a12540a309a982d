"""Embeddings and the pre-softmax projection (§3.4)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Embedding(nn.Module):
    """One matrix for the source, the target and, transposed, the output.

    Where the source has a vocabulary of its own, it has a `SourceEmbedding`. An output that is not
    tied has a matrix of its own too.
    """

    output_weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        *,
        tied: bool = True,
        bias: bool = False,
        scale: float | None = None,
        std: float | None = None,
    ) -> None:
        """Take what inputs are multiplied by, if not sqrt(d_model), and the spread of new weights.

        Both are the Transformer's if they are not given; other architectures have their own.
        """
        super().__init__()
        self.scale = math.sqrt(d_model) if scale is None else scale
        self.std = d_model**-0.5 if std is None else std
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        self.output_weight = None if tied else nn.Parameter(torch.empty(vocab_size, d_model))
        self.bias = nn.Parameter(torch.empty(vocab_size)) if bias else None

    def init_weights(self) -> None:
        """Draw with variance 1 / d_model, unless a spread is given.

        As inputs, scaled by sqrt(d_model), entries then have variance 1, like the outputs of the
        layers. As outputs, they give logits of variance 1 for a normalised state.
        """
        nn.init.normal_(self.weight, std=self.std)
        if self.output_weight is not None:
            nn.init.normal_(self.output_weight, std=self.std)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(
        self,
        ids: Tensor,  # [B, T]
    ) -> Tensor:
        """Look up ids and scale, by sqrt(d_model) if nothing else is given."""
        return F.embedding(ids, self.weight) * self.scale  # [B, T, d_model]

    @property
    def output(self) -> Tensor:
        """The matrix that turns states into scores, without the bias."""
        return self.weight if self.output_weight is None else self.output_weight

    def logits(
        self,
        x: Tensor,  # [B, T, d_model]
    ) -> Tensor:
        """Score every entry of the vocabulary; another matrix or a bias is a deviation."""
        return F.linear(x, self.output, self.bias)  # [B, T, V]

    def with_bias(self, x: Tensor) -> Tensor:
        """Append a 1 if there is a bias: the product with `projection` is then the logits."""
        return x if self.bias is None else F.pad(x, (0, 1), value=1.0)

    @property
    def projection(self) -> Tensor:
        """The matrix of the logits; its last column is the bias, if there is one."""
        if self.bias is None:
            return self.output
        return torch.cat([self.output, self.bias[:, None]], dim=1)


class SourceEmbedding(Embedding):
    """The matrix of a source with a vocabulary of its own, which is only looked up in."""
