"""Positions (§3.5), added to the embeddings: sinusoids, or learned (Table 3 row E)."""

import torch
from torch import Tensor, nn

from transduce.errors import InputError


def sinusoids(max_positions: int, d_model: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(same).

    Float32 angles would lose digits far from the start, and not every device has float64.
    """
    pos = torch.arange(max_positions, dtype=torch.float64, device="cpu")
    two_i = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu")
    angles = pos[:, None] / 10000.0 ** (two_i / d_model)
    return (
        torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()
    )  # [max_positions, d_model]


class Positions(nn.Module):
    """A table with a row for each position."""

    table: Tensor  # [max_positions, d_model]

    def forward(self, length: int) -> Tensor:
        """Return the rows of the first positions."""
        self.check(length)
        return self.table[:length]  # [T, d_model]

    def check(self, length: int) -> None:
        """Refuse more positions than there are."""
        if length > self.table.size(0):
            raise InputError(
                f"a sequence of {length} tokens is longer than "
                f"model.max_positions={self.table.size(0)}; cut it or raise the setting"
            )

    def at(self, positions: Tensor) -> Tensor:
        """Return the rows of positions, [T], that lie on the device: nobody checks them."""
        return self.table.index_select(0, positions)  # [T, d_model]


class SinusoidalPositions(Positions):
    """Fixed waves; not part of the weights, so a trained model may be given a longer table."""

    def __init__(self, max_positions: int, d_model: int) -> None:
        super().__init__()
        table = sinusoids(max_positions, d_model).to(torch.get_default_device())
        self.register_buffer("table", table, persistent=False)


class LearnedPositions(Positions):
    """A vector for each position, learned like an embedding."""

    def __init__(self, max_positions: int, d_model: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_positions, d_model))
