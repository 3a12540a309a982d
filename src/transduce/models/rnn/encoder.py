"""The recurrent encoder: layers in one direction or both, with residual connections."""

from typing import TypeVar

from torch import Tensor, nn

from transduce.models.rnn.settings import RNNConfig
from transduce.nn.dropout import Dropout
from transduce.nn.mixers.recurrence import BidirectionalRecurrence, Recurrence, reversal_of

FIRST_RESIDUAL = 2
"""The index of the first layer with a residual connection (Wu et al. 2016, §3.1)."""
Layer = TypeVar("Layer", bound=nn.Module)


class RecurrentEncoder(nn.Module):
    """Reads whole sentences; padding changes nothing, in either direction."""

    def __init__(self, c: RNNConfig) -> None:
        super().__init__()
        self.dropout = Dropout(c.p_drop)
        self.residual = c.residual
        self.layers = nn.ModuleList()
        width = c.d_model
        for index in range(c.n_encoder_layers):
            both = c.bidirectional == "all" or (c.bidirectional == "first" and index == 0)
            one_way = [Recurrence(width, c.d_hidden, cell=c.cell) for _ in range(1 + both)]
            self.layers.append(BidirectionalRecurrence(*one_way) if both else one_way[0])
            width = len(one_way) * c.d_hidden

    def forward(
        self,
        x: Tensor,  # [B, S, d_model]
        real: Tensor,  # [B, S]
    ) -> Tensor:
        """Return the states of the last layer; `real` is False at padding, which comes last."""
        reversal = reversal_of(real)  # [B, S]
        for index, layer in enumerate(self.layers):
            below = self.dropout(x) if index else x
            both = isinstance(layer, BidirectionalRecurrence)
            output = layer(below, reversal) if both else layer(below)
            x = output + x if self.residual and index >= FIRST_RESIDUAL else output
        return x  # [B, S, d_source]
