"""Recurrent layers: LSTM (Hochreiter and Schmidhuber 1997) and GRU (Cho et al. 2014).

Whole sequences are read by torch's fused kernels, one layer and one direction a call. A search, and
a decoder whose input depends on its own output, go one position at a time with the same weights.
By torch's default, cuDNN multiplies float32 in TF32; `torch.backends.cudnn.allow_tf32` changes it.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CellName = Literal["lstm", "gru"]
GATES: dict[CellName, int] = {"lstm": 4, "gru": 3}
"""In torch's order: input, forget, cell, output; and reset, update, new."""
STATES: dict[CellName, int] = {"lstm": 2, "gru": 1}
"""What a cell carries from one position to the next: its output, and an LSTM its memory cell."""
State = tuple[Tensor, ...]
"""The output of the last position, and of an LSTM its memory cell: each [..., d_hidden]."""


class Recurrence(nn.Module):
    """One layer in one direction, with the weights of `nn.LSTM` or `nn.GRU`."""

    def __init__(self, d_in: int, d_hidden: int, *, cell: CellName) -> None:
        super().__init__()
        self.cell_name = cell
        self.d_hidden = d_hidden
        gates = GATES[cell] * d_hidden
        self.weight_ih = nn.Parameter(torch.empty(gates, d_in))
        self.weight_hh = nn.Parameter(torch.empty(gates, d_hidden))
        self.bias_ih = nn.Parameter(torch.empty(gates))
        self.bias_hh = nn.Parameter(torch.empty(gates))

    def init_weights(self) -> None:
        """Draw by gate: Glorot for the input, orthogonal for the recurrence, an open forget gate.

        Orthogonal matrices keep the norm of what they carry over time (Saxe et al. 2014); a forget
        gate that starts open lets the memory cell carry it (Jozefowicz et al. 2015).
        """
        for from_input, from_state in zip(
            torch.split(self.weight_ih, self.d_hidden),
            torch.split(self.weight_hh, self.d_hidden),
            strict=True,
        ):
            nn.init.xavier_uniform_(from_input)
            nn.init.orthogonal_(from_state)
        nn.init.zeros_(self.bias_ih)
        nn.init.zeros_(self.bias_hh)
        if self.cell_name == "lstm":
            nn.init.ones_(self.bias_ih[self.d_hidden : 2 * self.d_hidden])

    def forward(self, x: Tensor, state: State | None = None) -> Tensor:
        """Read [B, T, d_in] from the first position to the last; return the outputs.

        Without a state, it starts from zeros.
        """
        dtype = _product_dtype(x)
        if state is None:
            zeros = x.new_zeros(x.size(0), self.d_hidden, dtype=dtype)
            state = (zeros,) * STATES[self.cell_name]
        first = tuple(part.to(dtype)[None].contiguous() for part in state)
        weights = self._flat_weights(dtype) if x.is_cuda else self._weights()
        # Autocast would compute in float16 here, whatever its dtype.
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(dtype)
            options = (True, 1, 0.0, self.training, False, True)  # biases, one layer, batch first
            if self.cell_name == "lstm":
                outputs: Tensor = torch.lstm(x, first, weights, *options)[0]
            else:
                outputs = torch.gru(x, first[0], weights, *options)[0]
        return outputs  # [B, T, d_hidden]

    def inputs(self, x: Tensor) -> Tensor:
        """Project inputs to the gates, [..., gates], before they are read step by step.

        Where x is narrower than the inputs, it is the first part of them; a `Cell` reads the rest.
        """
        is_all = x.size(-1) == self.weight_ih.size(1)  # autocast casts a whole matrix only once
        weight = self.weight_ih if is_all else self.weight_ih[:, : x.size(-1)]
        return F.linear(x, weight, self.bias_ih)

    def cell(self, x: Tensor, *, d_fed: int = 0) -> "Cell":
        """Return one step with these weights, in the dtype of products with x.

        The last `d_fed` inputs are not among those that `inputs` projects.
        """
        dtype = _product_dtype(x)
        from_fed = self.weight_ih[:, self.weight_ih.size(1) - d_fed :].t().to(dtype)
        from_state = self.weight_hh.t().to(dtype)
        return Cell(self.cell_name, from_fed, from_state, self.bias_hh.to(dtype))

    def _weights(self) -> list[Tensor]:
        return [self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh]

    def _flat_weights(self, dtype: torch.dtype) -> list[Tensor]:
        """Return the weights as parts of one tensor: in the order in which cuDNN reads them."""
        weights = self._weights()
        flat = torch.cat([weight.flatten().to(dtype) for weight in weights])
        parts = torch.split(flat, [weight.numel() for weight in weights])
        return [part.view_as(weight) for part, weight in zip(parts, weights, strict=True)]


@dataclass(frozen=True)
class Cell:
    """One step of a recurrence: eqs. of `nn.LSTMCell` and `nn.GRUCell`, in one dtype."""

    name: CellName
    from_fed: Tensor  # [d_fed, gates]
    from_state: Tensor  # [d_hidden, gates]
    bias: Tensor  # [gates]

    def __call__(self, inputs: Tensor, state: State, fed: Tensor | None = None) -> State:
        """Return the next state from inputs projected to the gates, [B, k, gates].

        `fed`, [B, k, d_fed], is a part of the input that was not known before.
        """
        dtype = self.from_state.dtype
        rows, shape = (inputs.size(0) * inputs.size(1), -1), (*inputs.shape[:2], -1)
        with torch.autocast(inputs.device.type, enabled=False):
            gates = inputs.to(dtype).reshape(rows)
            h, *c = (part.to(dtype).reshape(rows) for part in state)
            if fed is not None:
                gates = torch.addmm(gates, fed.to(dtype).reshape(rows), self.from_fed)
            recurrent = torch.addmm(self.bias, h, self.from_state)
            following = _next_lstm(gates, recurrent, *c) if c else _next_gru(gates, recurrent, h)
        return tuple(part.view(shape) for part in following)


def _next_lstm(inputs: Tensor, recurrent: Tensor, c: Tensor) -> State:
    if inputs.is_cuda:  # one kernel
        h, c, _ = torch.ops.aten._thnn_fused_lstm_cell(inputs, recurrent, c)
        return h, c
    i, f, g, o = (inputs + recurrent).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _next_gru(inputs: Tensor, recurrent: Tensor, h: Tensor) -> State:
    if inputs.is_cuda:
        return (torch.ops.aten._thnn_fused_gru_cell(inputs, recurrent, h)[0],)
    width = h.size(-1)
    gates = (inputs[..., : 2 * width] + recurrent[..., : 2 * width]).sigmoid()
    r, z = gates.chunk(2, dim=-1)
    n = torch.addcmul(inputs[..., 2 * width :], r, recurrent[..., 2 * width :]).tanh()
    return (torch.lerp(n, h, z),)


class BidirectionalRecurrence(nn.Module):
    """Two layers side by side, one of which reads every sentence from its end to its beginning."""

    def __init__(self, forward_layer: Recurrence, backward_layer: Recurrence) -> None:
        super().__init__()
        self.forward_layer = forward_layer
        self.backward_layer = backward_layer

    def forward(self, x: Tensor, reversal: Tensor) -> Tensor:
        """Read [B, S, d_in] both ways; return both outputs side by side, [B, S, 2·d_hidden]."""
        onward = self.forward_layer(x)
        back = self.backward_layer(reversed_by(x, reversal))
        return torch.cat([onward, reversed_by(back, reversal)], dim=-1)


def reversal_of(real: Tensor) -> Tensor:
    """Return the places, [B, S], that reverse each sentence and leave its padding at the end.

    `real` is True where a sentence has tokens, which come first. They are found on the device, so
    that the host does not wait, as it would to pack the sentences.
    """
    places = torch.arange(real.size(1), device=real.device)  # [S]
    lengths = real.sum(dim=1, keepdim=True)  # [B, 1]
    return torch.where(places < lengths, lengths - 1 - places, places)  # [B, S]


def reversed_by(x: Tensor, reversal: Tensor) -> Tensor:
    """Reorder the positions of [B, S, d]; twice, it is x again."""
    reordered: Tensor = _Reversed.apply(x, reversal)  # type: ignore[no-untyped-call]
    return reordered


class _Reversed(torch.autograd.Function):
    """Copies rows, and the rows of the gradient back: torch would add each of its elements."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, reversal: Tensor) -> Tensor:
        ctx.save_for_backward(reversal)
        return _reordered(x, reversal)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (reversal,) = ctx.saved_tensors
        return reversed_by(gradient, reversal), None


def _reordered(x: Tensor, places: Tensor) -> Tensor:
    sentences, length = places.shape
    first = length * torch.arange(sentences, device=x.device)[:, None]
    rows = x.flatten(0, 1).index_select(0, (first + places).flatten())
    return rows.view_as(x)


def _product_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype of matrix products: that of autocast, or else that of x."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
