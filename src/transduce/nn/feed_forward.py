"""The position-wise feed-forward network (§3.3)."""

from collections.abc import Callable
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from transduce.nn.dropout import Dropout
from transduce.nn.initialise import glorot_
from transduce.nn.linear import linear_relu, linear_together

Activation = Literal["relu", "swish", "relu2", "swiglu", "geglu"]


def relu_squared(x: Tensor) -> Tensor:
    """Return max(0, x)² (So et al. 2021)."""
    return F.relu(x).square()


ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "swish": F.silu,
    "relu2": relu_squared,
    "swiglu": F.silu,
    "geglu": F.gelu,
}
GATED: tuple[Activation, ...] = ("swiglu", "geglu")
"""These have a gate: the activation of one projection multiplies another."""


class FeedForward(nn.Module):
    """Eq. 2: max(0, x W_1 + b_1) W_2 + b_2, the same at each position.

    Any activation other than max(0, ·) is a deviation.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: Callable[[Tensor], Tensor] = F.relu,
        p_drop: float = 0.0,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = Dropout(p_drop)

    def init_weights(self) -> None:
        """Draw both matrices as Glorot and Bengio propose."""
        glorot_(self.w_1)
        glorot_(self.w_2)

    def forward(self, x: Tensor) -> Tensor:
        """Apply eq. 2 to each position of x."""
        if self.activation is F.relu:
            inner = self.dropout(linear_relu(x, self.w_1))  # [B, T, d_ff]
        else:
            inner = self.dropout(self.activation(self.w_1(x)))
        output: Tensor = self.w_2(inner)  # [B, T, d_model]
        return output


class GatedFeedForward(nn.Module):
    """(f(x W_g) ⊙ x W_1) W_2, without biases (Shazeer 2020), instead of eq. 2.

    It has three matrices of d_ff columns where eq. 2 has two: with 2/3 of the d_ff it is as large.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: Callable[[Tensor], Tensor] = F.silu,
        p_drop: float = 0.0,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.w_g = nn.Linear(d_model, d_ff, bias=False)
        self.w_1 = nn.Linear(d_model, d_ff, bias=False)
        self.w_2 = nn.Linear(d_ff, d_model, bias=False)
        self.dropout = Dropout(p_drop)

    def init_weights(self) -> None:
        """Draw the matrices as Glorot and Bengio propose."""
        for layer in (self.w_g, self.w_1, self.w_2):
            glorot_(layer)

    def forward(self, x: Tensor) -> Tensor:
        """Apply it to each position of x."""
        gate, up = linear_together(x, self.w_g, self.w_1)
        output: Tensor = self.w_2(self.dropout(self.activation(gate) * up))  # [B, T, d_model]
        return output


def make_feed_forward(
    d_model: int, d_ff: int, *, activation: Activation = "relu", p_drop: float = 0.0
) -> FeedForward | GatedFeedForward:
    """Build the network that an activation is part of: eq. 2, or one with a gate."""
    build = GatedFeedForward if activation in GATED else FeedForward
    return build(d_model, d_ff, activation=ACTIVATIONS[activation], p_drop=p_drop)
