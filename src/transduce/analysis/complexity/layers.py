"""The layers of Table 1, in the paper's order, as modules from [B, n, d] to [B, n, d].

Table 1 counts what mixes positions: its O(n²·d) of self-attention leaves out the projections of
queries, keys, values and heads, O(n·d²). So attention is here twice: alone, and as a layer with
its projections.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transduce.analysis.complexity.options import D_K
from transduce.nn.initialise import initialise
from transduce.nn.mixers.attention import (
    Attend,
    MultiHeadAttention,
    attend_fused,
    attend_reference,
)
from transduce.nn.mixers.convolution import Convolution
from transduce.nn.mixers.local_attention import attend_local
from transduce.nn.mixers.recurrence import BidirectionalRecurrence, Recurrence, reversal_of


@dataclass(frozen=True)
class LayerShape:
    """The width of a layer, the paper's k and r, and whether a position sees only earlier ones."""

    d: int
    k: int = 3
    r: int = 64
    causal: bool = False

    @property
    def heads(self) -> int:
        """The number of heads."""
        return max(self.d // D_K, 1)

    @property
    def window(self) -> int:
        """The distance at which keys are hidden from r neighbours: centred, or up to the query."""
        return self.r if self.causal else self.r // 2 + 1

    def dilation(self, level: int) -> int:
        """The dilation of a layer in a stack, counted from 0, such that no input is left out.

        A causal kernel reaches k − 1 positions back: dilations k^0, k^1, … are the digits of every
        distance. A centred one reaches (k − 1) / 2 to each side, so the base is (k + 1) / 2: with
        k^0, k^1, … the only way between some pairs would lead over the end of the sentence.
        """
        base: int = self.k if self.causal else (self.k + 1) // 2
        return int(base**level)


@dataclass(frozen=True)
class LayerKind:
    """A row of the table. A row whose name is indented is a variant of the row above it."""

    name: str
    operations: str  # as the paper has it, or '' for a variant
    sequential: str
    path: str
    build: Callable[[LayerShape], nn.Module]
    numbers: Callable[[int, LayerShape], float]  # in memory at once, at most, as a rough bound
    stacked: Callable[[LayerShape, int], nn.Module] | None = None  # a layer of a stack, by level
    levels_differ: bool = False
    unrolled: Callable[[LayerShape], nn.Module] | None = None  # the same without a fused loop
    step: Callable[[LayerShape], nn.Module] | None = None  # of a recurrence, from (inputs, states)

    @property
    def is_variant(self) -> bool:
        """Whether the paper has no such row."""
        return not self.operations

    def layer_of_stack(self, shape: LayerShape, level: int) -> nn.Module:
        """Return a layer of a stack that connects as many positions as it can."""
        return self.build(shape) if self.stacked is None else self.stacked(shape, level)

    def traced(self, shape: LayerShape) -> nn.Module:
        """Return the layer in a form whose operations can be counted one by one."""
        return (self.unrolled or self.build)(shape)


class AttentionAlone(nn.Module):
    """Eq. 1 of h heads without projections: q, k and v are x itself."""

    def __init__(self, shape: LayerShape, mix: Callable[[Tensor, LayerShape], Tensor]) -> None:
        super().__init__()
        self.shape, self.mix = shape, mix

    def forward(self, x: Tensor) -> Tensor:
        """Let every position attend."""
        heads = x.view(*x.shape[:2], self.shape.heads, -1).transpose(1, 2)
        return self.mix(heads, self.shape).transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """The paper's multi-head self-attention, with its four projections."""

    def __init__(self, shape: LayerShape, attend: Attend, *, window: int | None = None) -> None:
        super().__init__()
        width = shape.d // shape.heads
        self.attention = MultiHeadAttention(
            shape.d, shape.heads, d_k=width, d_v=width, window=window
        )
        self.causal, self.attend_by = shape.causal, attend

    def forward(self, x: Tensor) -> Tensor:
        """Let every position attend."""
        mixed: Tensor = self.attention(x, x, causal=self.causal, attend=self.attend_by)
        return mixed


class BothWays(nn.Module):
    """A recurrent layer of an encoder: half of its outputs come from the end of the sentence."""

    def __init__(self, shape: LayerShape) -> None:
        super().__init__()
        onward, back = (Recurrence(shape.d, shape.d // 2, cell="lstm") for _ in range(2))
        self.recurrence = BidirectionalRecurrence(onward, back)

    def forward(self, x: Tensor) -> Tensor:
        """Read every sentence from both ends."""
        everything = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        outputs: Tensor = self.recurrence(x, reversal_of(everything))
        return outputs


class UnrolledRecurrence(nn.LSTMCell):
    """A recurrent layer as a loop over its cell, whose operations can be counted."""

    def __init__(self, shape: LayerShape) -> None:
        super().__init__(shape.d, shape.d)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """Read from the first position to the last."""
        h = c = x.new_zeros(x.size(0), x.size(2))
        outputs = []
        for inputs in F.linear(x, self.weight_ih, self.bias_ih).unbind(1):
            h, c = _next_state(inputs + F.linear(h, self.weight_hh, self.bias_hh), c)
            outputs.append(h)
        return torch.stack(outputs, dim=1)


def _next_state(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Return the output and the memory cell of an LSTM; torch's own cell works in place."""
    i, f, g, o = gates.chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


class RecurrentStep(nn.Module):
    """One step of a recurrence at all positions at once, each from the state beside it.

    The state of a position is [output, memory cell] of the direction from left to right and, unless
    the layer is causal, then of the other direction.
    """

    def __init__(self, shape: LayerShape) -> None:
        super().__init__()
        directions = 1 if shape.causal else 2
        self.cells = nn.ModuleList(nn.LSTMCell(shape.d, shape.d) for _ in range(directions))

    def forward(self, inputs: Tensor, states: Tensor) -> Tensor:
        """Return the next states of inputs [B, n, d] and states [B, n, 2·directions·d]."""
        parts = states.chunk(2 * len(self.cells), dim=-1)
        following: list[Tensor] = []
        for direction, cell in enumerate(self.cells):
            before = [_shifted(part, direction) for part in parts[2 * direction :][:2]]
            after = cell(inputs.flatten(0, 1), [part.flatten(0, 1) for part in before])
            following += [part.view_as(inputs) for part in after]
        return torch.cat(following, dim=-1)


def _shifted(states: Tensor, direction: int) -> Tensor:
    """Give each position the state of the one before it, or after it in the other direction."""
    zeros = torch.zeros_like(states[:, :1])
    parts = [zeros, states[:, :-1]] if direction == 0 else [states[:, 1:], zeros]
    return torch.cat(parts, dim=1)


def _attend_to_all(heads: Tensor, shape: LayerShape) -> Tensor:
    return attend_fused(heads, heads, heads, causal=shape.causal)


def _attend_step_by_step(heads: Tensor, shape: LayerShape) -> Tensor:
    context, _ = attend_reference(heads, heads, heads, causal=shape.causal)
    return context


def _attend_to_neighbours(heads: Tensor, shape: LayerShape) -> Tensor:
    return attend_local(heads, heads, heads, causal=shape.causal, window=shape.window)


def _convolution(shape: LayerShape, dilation: int) -> Convolution:
    projection = nn.Linear(shape.k * shape.d, shape.d)
    return Convolution(projection, kernel=shape.k, dilation=dilation, causal=shape.causal)


def _recurrent_layer(shape: LayerShape, _level: int) -> nn.Module:
    return Recurrence(shape.d, shape.d, cell="lstm") if shape.causal else BothWays(shape)


def _linear_memory(n: int, shape: LayerShape) -> float:
    return 16 * n * shape.d * shape.k + 8 * shape.k * shape.d**2


def _weights_in_memory(n: int, shape: LayerShape) -> float:
    return 4 * shape.heads * n**2 + 16 * n * shape.d


def _neighbours_in_memory(n: int, shape: LayerShape) -> float:
    return 8 * shape.heads * n * 3 * (shape.r + 64) + 32 * n * shape.d


LAYERS = (
    LayerKind(
        "self-attention",
        *("O(n²·d)", "O(1)", "O(1)"),
        build=lambda shape: AttentionAlone(shape, _attend_to_all),
        numbers=_linear_memory,
    ),
    LayerKind(
        "  eq. 1 step by step",
        *("", "", ""),
        build=lambda shape: AttentionAlone(shape, _attend_step_by_step),
        numbers=_weights_in_memory,
    ),
    LayerKind(
        "  with projections",
        *("", "", ""),
        build=lambda shape: SelfAttention(shape, attend_fused),
        numbers=_linear_memory,
    ),
    LayerKind(
        "recurrent",
        *("O(n·d²)", "O(n)", "O(n)"),
        build=lambda shape: Recurrence(shape.d, shape.d, cell="lstm"),
        numbers=_linear_memory,
        stacked=_recurrent_layer,
        unrolled=UnrolledRecurrence,
        step=RecurrentStep,
    ),
    LayerKind(
        "convolutional, contiguous",
        *("O(k·n·d²)", "O(1)", "O(n/k)"),
        build=lambda shape: _convolution(shape, 1),
        numbers=_linear_memory,
    ),
    LayerKind(
        "convolutional, dilated",
        *("O(k·n·d²)", "O(1)", "O(log_k n)"),
        build=lambda shape: _convolution(shape, shape.dilation(1)),
        numbers=_linear_memory,
        stacked=lambda shape, level: _convolution(shape, shape.dilation(level)),
        levels_differ=True,
    ),
    LayerKind(
        "restricted self-attention",
        *("O(r·n·d)", "O(1)", "O(n/r)"),
        build=lambda shape: AttentionAlone(shape, _attend_to_neighbours),
        numbers=_neighbours_in_memory,
    ),
    LayerKind(
        "  restricted, with projections",
        *("", "", ""),
        build=lambda shape: SelfAttention(shape, attend_local, window=shape.window),
        numbers=_neighbours_in_memory,
    ),
)
"""The paper's rows in its order, convolution divided into its two kinds, and variants."""


def drawn(layer: nn.Module, *, seed: int) -> nn.Module:
    """Draw the weights of a new layer."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        initialise(layer)
    return layer
