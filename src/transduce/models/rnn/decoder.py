"""Recurrent decoders with attention: which state attends, and where its context goes.

A decoder whose recurrence does not depend on its own context, luong or gnmt, reads whole sequences
by fused kernels. The recurrence of the other two does, so they go from position to position. A
search does that with all of them, by the same `_next`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from transduce.models.rnn.encoder import FIRST_RESIDUAL
from transduce.models.rnn.settings import RNNConfig
from transduce.nn.dropout import Dropout
from transduce.nn.initialise import glorot_
from transduce.nn.mixers.recurrence import STATES, Cell, Recurrence, State
from transduce.nn.mixers.score_functions import SourceAttention


@dataclass(frozen=True)
class EncodedSource:
    """The encoder's states, and where they are real."""

    states: Tensor  # [B, S, d_source]
    mask: Tensor  # [B, 1, S]


@dataclass(frozen=True)
class Attended:
    """A source as attention reads it: projected once, for all positions of the target."""

    states: Tensor  # [B, S, d_source]
    keys: Tensor  # [B, S, d_hidden]
    mask: Tensor  # [B, 1, S]


@dataclass(frozen=True)
class Position:
    """What a decoder computes at one position, for k hypotheses of each sentence."""

    last: list[State]  # of each layer
    output: Tensor  # [B, k, d_hidden]
    context: Tensor  # [B, k, d_source]
    weights: Tensor  # [B, k, S]


class RecurrentDecoder(nn.Module, ABC):
    """Recurrent layers, attention to the source, and a readout (Bahdanau et al. 2015, A.2.2)."""

    def __init__(self, c: RNNConfig) -> None:
        super().__init__()
        self.wiring = c.decoder
        self.residual = c.residual
        self.n_states = STATES[c.cell]
        self.d_fed = {"bahdanau": c.d_source, "input_feeding": c.d_model}.get(c.decoder, 0)
        self.dropout = Dropout(c.p_drop)
        self.attention = SourceAttention(c.d_source, c.d_hidden, score=c.attention)
        above = c.d_hidden + (c.d_source if c.decoder == "gnmt" else 0)
        widths = [c.d_model + self.d_fed, *[above] * (c.n_decoder_layers - 1)]
        layers = nn.ModuleList(Recurrence(width, c.d_hidden, cell=c.cell) for width in widths)
        self.layers = cast("Sequence[Recurrence]", layers)
        self.initial = nn.Linear(c.d_source, c.n_decoder_layers * self.n_states * c.d_hidden)
        self.readout = nn.Linear(c.d_hidden + c.d_source + c.d_model, c.d_model)

    def init_weights(self) -> None:
        """Draw every part; torch's own default is narrower for plain projections."""
        self.attention.init_weights()
        for part in self.layers:
            part.init_weights()
        glorot_(self.initial)
        glorot_(self.readout)

    @abstractmethod
    def forward(
        self, y: Tensor, source: EncodedSource, *, keep_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Return the readouts of all positions of y, [B, T, d_model], and maybe the weights."""

    def attended(self, source: EncodedSource) -> Attended:
        """Project the source once."""
        return Attended(source.states, self.attention.keys(source.states), source.mask)

    def first_states(self, source: EncodedSource) -> Tensor:
        """Return the states before the first token, from the mean of the source's states."""
        real = source.mask.exp()  # [B, 1, S]
        mean = (real / real.sum(dim=-1, keepdim=True)) @ source.states  # [B, 1, d_source]
        initial: Tensor = self.initial(mean).tanh()
        return initial.view(mean.size(0), len(self.layers) * self.n_states, -1)

    def step(
        self, y: Tensor, states: Tensor, fed: Tensor | None, source: Attended
    ) -> tuple[Tensor, Tensor]:
        """Read one token of each hypothesis, [B, k, d_model]: its readout, and the next states.

        States are [B, k, states of all layers, d_hidden].
        """
        inputs = self.layers[0].inputs(y)
        at = self._next(inputs, self.by_layer(states, dim=2), fed, source, self._cells(y))
        following = torch.stack([part for state in at.last for part in state], dim=2)
        return self._readout(at.output, at.context, y), following

    def by_layer(self, states: Tensor, *, dim: int) -> list[State]:
        """Separate the states of the layers."""
        parts = states.unbind(dim)
        return [parts[at : at + self.n_states] for at in range(0, len(parts), self.n_states)]

    def _readout(self, output: Tensor, context: Tensor, y: Tensor) -> Tensor:
        read: Tensor = self.readout(torch.cat([output, context.to(output.dtype), y], dim=-1))
        return read.tanh()  # [B, T, d_model]

    def _cells(self, y: Tensor) -> list[Cell]:
        return [
            layer.cell(y, d_fed=0 if index else self.d_fed)
            for index, layer in enumerate(self.layers)
        ]

    def _next(
        self,
        inputs: Tensor,
        last: Sequence[State],
        fed: Tensor | None,
        source: Attended,
        cells: Sequence[Cell],
    ) -> Position:
        """Compute one position of k hypotheses from inputs projected to the first layer's gates."""

        def attend(query: Tensor) -> tuple[Tensor, Tensor]:
            found: tuple[Tensor, Tensor] = self.attention(
                query, source.keys, source.states, source.mask
            )
            return found

        context = weights = None
        if self.wiring == "bahdanau":
            context, weights = attend(last[-1][0])
            fed = context
        following = [cells[0](inputs, last[0], fed)]
        x = following[0][0]
        if self.wiring == "gnmt":
            context, weights = attend(x)
        for index in range(1, len(cells)):
            inputs = self.layers[index].inputs(self._above(x, context))
            following.append(cells[index](inputs, last[index]))
            x = self._added(following[index][0], x, index)
        if context is None or weights is None:
            context, weights = attend(x)
        return Position(following, x, context, weights)

    def _above(self, x: Tensor, context: Tensor | None) -> Tensor:
        """Return the input of the layer above x."""
        if self.wiring == "gnmt":
            assert context is not None
            x = torch.cat([x, context.to(x.dtype)], dim=-1)
        dropped: Tensor = self.dropout(x)
        return dropped

    def _added(self, output: Tensor, below: Tensor, index: int) -> Tensor:
        return output + below if self.residual and index >= FIRST_RESIDUAL else output


class WholeDecoder(RecurrentDecoder):
    """luong and gnmt: each layer reads all positions at once."""

    def forward(
        self,
        y: Tensor,  # [B, T, d_model]
        source: EncodedSource,
        *,
        keep_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the readouts of all positions and, if they are asked for, the weights."""
        attended = self.attended(source)
        first = self.by_layer(self.first_states(source), dim=1)
        attending = 0 if self.wiring == "gnmt" else len(self.layers) - 1
        x, context, weights = y, None, None
        for index, (layer, state) in enumerate(zip(self.layers, first, strict=True)):
            output = layer(self._above(x, context) if index else x, state)  # [B, T, d_hidden]
            x = self._added(output, x, index)
            if index == attending:
                context, weights = self.attention(x, attended.keys, attended.states, attended.mask)
        assert context is not None
        return self._readout(x, context, y), weights if keep_weights else None


class LoopDecoder(RecurrentDecoder):
    """bahdanau and input_feeding: a loop over positions.

    A GPU spends it on starting kernels, so all that does not depend on the recurrence is computed
    before or after it.
    """

    def forward(
        self,
        y: Tensor,  # [B, T, d_model]
        source: EncodedSource,
        *,
        keep_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the readouts of all positions and, if they are asked for, the weights."""
        attended, cells = self.attended(source), self._cells(y)
        inputs = self.layers[0].inputs(y)  # [B, T, gates]
        last = [
            tuple(part[:, None] for part in state)
            for state in self.by_layer(self.first_states(source), dim=1)
        ]
        feeds = self.wiring == "input_feeding"
        fed = torch.zeros_like(y[:, :1]) if feeds else None
        found: list[Position] = []
        readouts: list[Tensor] = []
        for at, y_at in zip(torch.split(inputs, 1, dim=1), torch.split(y, 1, dim=1), strict=True):
            position = self._next(at, last, fed, attended, cells)
            last = position.last
            found.append(position)
            if feeds:
                fed = self._readout(position.output, position.context, y_at)
                readouts.append(fed)
        weights = torch.cat([p.weights for p in found], dim=1) if keep_weights else None
        if feeds:
            return torch.cat(readouts, dim=1), weights
        output = torch.cat([p.output for p in found], dim=1)  # [B, T, d_hidden]
        context = torch.cat([p.context for p in found], dim=1)  # [B, T, d_source]
        return self._readout(output, context, y), weights


def decoder_of(c: RNNConfig) -> RecurrentDecoder:
    """Build the decoder of these settings."""
    return (LoopDecoder if c.decoder in ("bahdanau", "input_feeding") else WholeDecoder)(c)
