"""The "Add & Norm" of Figure 1 around every sub-layer (§3.1), with the dropout of §5.4."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from transduce.nn.dropout import Dropout
from transduce.nn.kernels.available import in_cuda_inference

NORM_EPSILON = 1e-6
"""Added to the variance in layer norm; the paper gives no number, its implementation has this."""


NormKind = Literal["layer", "rms"]
"""Layer norm, or RMS norm (Zhang and Sennrich 2019), which neither centres nor has a bias."""


def make_norm(
    kind: NormKind, d_model: int, *, epsilon: float = NORM_EPSILON
) -> nn.LayerNorm | nn.RMSNorm:
    """Build a norm over the last dimension."""
    build = nn.RMSNorm if kind == "rms" else nn.LayerNorm
    return build(d_model, eps=epsilon)


class AddNorm(nn.Module):
    """The base of both orders: a norm, and dropout on the sub-layer's output."""

    def __init__(
        self,
        d_model: int,
        *,
        epsilon: float = NORM_EPSILON,
        p_drop: float,
        norm: NormKind = "layer",
    ) -> None:
        super().__init__()
        self.norm = make_norm(norm, d_model, epsilon=epsilon)
        self.dropout = Dropout(p_drop)

    def join(self, x: Tensor, y: Tensor) -> Tensor:
        """Combine a sub-layer's input x and output y."""
        raise NotImplementedError


class PostNorm(AddNorm):
    """The paper's order: LayerNorm(x + Dropout(Sublayer(x)))."""

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Add a sub-layer's output to its input, then normalise."""
        return self.join(x, sublayer(x))

    def join(self, x: Tensor, y: Tensor) -> Tensor:
        """Compute LayerNorm(x + Dropout(y)); our kernels have no other norm."""
        if isinstance(self.norm, nn.LayerNorm):
            if in_cuda_inference(y) and not self.training:
                from transduce.nn.kernels.search import add_norm

                return add_norm(x, y, self.norm)
            if y.is_cuda and self.training and torch.compiler.is_compiling():  # it needs Triton too
                from transduce.nn.kernels.norm import drop_add_norm

                return drop_add_norm(x, y, self.norm, p_drop=self.dropout.p)
        output: Tensor = self.norm(x + self.dropout(y))
        return output


class PreNorm(AddNorm):
    """A deviation: x + Dropout(Sublayer(LayerNorm(x))); a stack then needs a norm at its end."""

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Normalise the input of a sub-layer, then add the output to the input as it was."""
        return self.join(x, sublayer(self.norm(x)))

    def join(self, x: Tensor, y: Tensor) -> Tensor:
        """Compute x + Dropout(y)."""
        output: Tensor = x + self.dropout(y)
        return output
