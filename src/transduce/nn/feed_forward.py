"""The position-wise feed-forward network (§3.3)."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from transduce.nn.dropout import Dropout
from transduce.nn.initialise import glorot_
from transduce.nn.linear import linear_relu


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
