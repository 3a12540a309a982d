"""The "Add & Norm" of Figure 1 around every sub-layer (§3.1), with the dropout of §5.4."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from transduce.nn.device import runs_kernels
from transduce.nn.dropout import Dropout

NORM_EPSILON = 1e-6
"""Added to the variance in layer norm; the paper gives none, its implementation took this."""


class AddNorm(nn.Module):
    """What both orders share: a layer norm and the dropout on the sub-layer's output."""

    def __init__(self, d_model: int, *, epsilon: float = NORM_EPSILON, p_drop: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=epsilon)
        self.dropout = Dropout(p_drop)

    def join(self, x: Tensor, y: Tensor) -> Tensor:
        """Join a sub-layer's output y to its input x."""
        raise NotImplementedError


class PostNorm(AddNorm):
    """The paper's order: LayerNorm(x + Dropout(Sublayer(x)))."""

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Add a sub-layer's output to its input, then normalise."""
        return self.join(x, sublayer(x))

    def join(self, x: Tensor, y: Tensor) -> Tensor:
        """Compute LayerNorm(x + Dropout(y))."""
        if runs_kernels(y) and not self.training:
            from transduce.nn.kernels import add_norm

            return add_norm(x, y, self.norm)
        if y.is_cuda and self.training and torch.compiler.is_compiling():  # which takes Triton
            from transduce.nn.norm_kernels import drop_add_norm

            return drop_add_norm(x, y, self.norm, p_drop=self.dropout.p)
        output: Tensor = self.norm(x + self.dropout(y))
        return output


class PreNorm(AddNorm):
    """A deviation: x + Dropout(Sublayer(LayerNorm(x))); the stack then needs a norm at its end."""

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Normalise a sub-layer's input, then add its output to what came in."""
        return self.join(x, sublayer(self.norm(x)))

    def join(self, x: Tensor, y: Tensor) -> Tensor:
        """Compute x + Dropout(y)."""
        output: Tensor = x + self.dropout(y)
        return output
