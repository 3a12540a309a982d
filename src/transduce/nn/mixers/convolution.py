"""Convolutions along positions: of whole sequences, and step by step in a search.

Sequences are [B, T, d], as everywhere. Beyond both ends there are zeros; padding inside a batch
must be set to zero by the caller where a centred convolution could see it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transduce.nn.step_state import HypothesisState
from transduce.nn.weight_norm import WeightNormLinear

Projection = nn.Linear | WeightNormLinear


class Convolution(nn.Module):
    """y_t = W [x_(t−left) … x_(t+right)] + b, over `kernel` inputs that lie `dilation` apart.

    Centred, as many of them lie on both sides of t; causal, all of them up to t. The projection
    takes the inputs side by side, in the order of their positions.
    """

    def __init__(
        self, projection: Projection, *, kernel: int, dilation: int = 1, causal: bool = False
    ) -> None:
        assert projection.in_features % kernel == 0, f"not {kernel} inputs of equal width"
        assert causal or kernel % 2, f"{kernel} inputs have no centre"
        super().__init__()
        self.kernel, self.dilation, self.causal = kernel, dilation, causal
        self.d_in = projection.in_features // kernel
        self.projection = projection

    @property
    def reach(self) -> int:
        """The distance from the first input of a position to its last."""
        return (self.kernel - 1) * self.dilation

    def forward(self, x: Tensor) -> Tensor:
        """Map whole sequences, [B, T, d_in], to [B, T, d_out]."""
        output: Tensor = self.projection(self._inputs(x))
        return output

    def _inputs(self, x: Tensor) -> Tensor:
        """Put the inputs of each position side by side: [B, T, kernel · d_in].

        On two cores, one product of these is as fast as `F.conv1d` or faster, forward and backward.
        """
        if self.kernel == 1:
            return x
        device = x.device.type
        if torch.is_autocast_enabled(device):
            x = x.to(torch.get_autocast_dtype(device))  # once, not `kernel` times
        left = self.reach if self.causal else self.reach // 2
        padded = F.pad(x, (0, 0, left, self.reach - left))
        starts = range(0, self.reach + 1, self.dilation)
        return torch.cat([padded[:, start : start + x.size(1)] for start in starts], dim=-1)

    def start(self, like: Tensor, *, hypotheses: int) -> HypothesisState | None:
        """Allocate what `step` keeps, for the sentences of a tensor [B, …]: the last inputs.

        They are zeros, as before the first position. A kernel of 1 keeps nothing.
        """
        assert self.causal, "a step knows no later inputs"
        if self.kernel == 1:
            return None
        return HypothesisState(like.new_zeros(like.size(0), hypotheses, self.reach, self.d_in))

    def step(self, x: Tensor, last: HypothesisState | None) -> Tensor:
        """Do what a causal `forward` does, for the next position of each hypothesis, [B, k, d]."""
        if last is not None:
            inputs = torch.cat([last.tensor, x[:, :, None]], dim=2)  # [B, k, window, d_in]
            last.update(inputs[:, :, 1:])
            x = inputs[:, :, :: self.dilation].flatten(2)
        output: Tensor = self.projection(x)
        return output
