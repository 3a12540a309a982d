"""Self-attentions of every kind that depends on distances, for property tests."""

from dataclasses import dataclass
from itertools import accumulate

import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.drawing import seeds
from transduce.nn.initialise import initialise
from transduce.nn.mixers.attention import MultiHeadAttention
from transduce.nn.mixers.key_ranges import KeyRanges
from transduce.nn.mixers.positions import (
    DistancePenalty,
    RelativeKeys,
    RelativePositions,
    RelativeScores,
    Rotation,
)

TERMS = ("none", "penalty", "scores", "keys")
MAX_POSITIONS = 1200


@dataclass(frozen=True)
class Kind:
    """What an attention does with distances."""

    term: str = "none"  # one of TERMS
    max_distance: int = 3
    window: int | None = None
    is_rotated: bool = False

    def make_term(self, h: int, d_k: int) -> RelativePositions | None:
        """Make the module that gives the score term."""
        if self.term == "penalty":
            return DistancePenalty(h, self.max_distance)
        if self.term == "scores":
            return RelativeScores(h, self.max_distance)
        return RelativeKeys(d_k, self.max_distance) if self.term == "keys" else None

    def make_attention(
        self, d_model: int, h: int, *, d_k: int, d_v: int, bias: bool = False
    ) -> MultiHeadAttention:
        """Make an attention of this kind; its weights are not drawn yet."""
        return MultiHeadAttention(
            d_model,
            h,
            d_k=d_k,
            d_v=d_v,
            bias=bias,
            term=self.make_term(h, d_k),
            window=self.window,
            rotation=Rotation(d_k, MAX_POSITIONS) if self.is_rotated else None,
        )


@st.composite
def kinds(draw: st.DrawFn) -> Kind:
    """Draw any combination of a term, a window and a rotation."""
    return Kind(
        draw(st.sampled_from(TERMS)),
        draw(st.integers(0, 9)),
        draw(st.none() | st.integers(1, 9)),
        draw(st.booleans()),
    )


@st.composite
def attentions(draw: st.DrawFn) -> MultiHeadAttention:
    """Draw an attention of any kind and size, in float64, with random weights everywhere."""
    d_model, h, half, d_v = (draw(st.integers(1, 6)) for _ in range(4))
    attention = draw(kinds()).make_attention(
        d_model, h, d_k=2 * half, d_v=d_v, bias=draw(st.booleans())
    )
    return with_random_weights(attention, seed=draw(seeds)).double().eval()


def with_random_weights(attention: MultiHeadAttention, *, seed: int) -> MultiHeadAttention:
    """Draw all weights; those that start at 0 are moved away, so that they count."""
    torch.manual_seed(seed)
    initialise(attention)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return attention


def random_states(*shape: int, seed: int) -> Tensor:
    """Draw inputs of a layer, in float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def packed_ranges(lengths: list[int], *, padding: int = 0) -> KeyRanges:
    """Lay sentences of these lengths end to end, with some padding after them."""
    ends = list(accumulate(lengths))
    bounds = [(end - n, end) for n, end in zip(lengths, ends, strict=True) for _ in range(n)]
    bounds += [(ends[-1], ends[-1])] * padding
    first, end = torch.tensor(bounds, dtype=torch.int32).t().contiguous()
    return KeyRanges(first, end, first, end)
