"""ConvS2S (Gehring et al. 2017, §3): convolutions with gates, and attention in every layer.

Section numbers are those of that paper. As everywhere here, source, target and output share one
embedding, unless the source has a vocabulary of its own; in the paper each has its own, and the
output has a bias.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transduce.data.packed_layout import PackedLayout
from transduce.models.base import Abilities, AttentionMaps, Seq2Seq
from transduce.models.conv_s2s.settings import ConvS2SConfig, parse_layers
from transduce.nn.dropout import Dropout
from transduce.nn.embedding import Embedding, SourceEmbedding
from transduce.nn.mixers.convolution import Convolution
from transduce.nn.mixers.masks import padding_allowed
from transduce.nn.mixers.positions import LearnedPositions
from transduce.nn.step_state import HypothesisState, SentenceState, StateGroup
from transduce.nn.weight_norm import WeightNormLinear
from transduce.text.special_ids import PAD_ID

HALF = math.sqrt(0.5)
"""§3.4: a sum of two terms is multiplied by this, so that it keeps their variance."""

EMBEDDING_STD = 0.1
"""§3.5: the spread of new embeddings."""


@dataclass(frozen=True)
class ConvMemory:
    """What the encoder hands to the decoder; all its layers attend to the same (§3.3).

    To the scores of all queries is added 0, or −∞ for padding.
    """

    keys: Tensor  # [B, S, d_model]
    values: Tensor  # [B, S, d_model]
    added: Tensor  # [B, 1, S]


def linear(d_in: int, d_out: int, *, p_drop: float = 0.0) -> WeightNormLinear:
    """Build a projection of inputs that are dropped with p_drop: §3.5, N(0, sqrt(p / n))."""
    return WeightNormLinear(d_in, d_out, std=math.sqrt((1 - p_drop) / d_in))


class GatedConvolution(nn.Module):
    """§3.2: a convolution to twice the width, then a gated linear unit, a ⊗ σ(b)."""

    def __init__(self, d_in: int, d_out: int, *, kernel: int, causal: bool, p_drop: float) -> None:
        super().__init__()
        n = kernel * d_in
        std = math.sqrt(4 * (1 - p_drop) / n)  # §3.5: a gate lets a quarter of the variance through
        self.dropout = Dropout(p_drop)
        self.convolution = Convolution(
            WeightNormLinear(n, 2 * d_out, std=std), kernel=kernel, causal=causal
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map whole sequences, [B, T, d_in], to [B, T, d_out]."""
        gates: Tensor = self.convolution(self.dropout(x))
        return F.glu(gates)

    def step(self, x: Tensor, last: HypothesisState | None) -> Tensor:
        """Map one position of each hypothesis, [B, k, d_in], to [B, k, d_out]."""
        return F.glu(self.convolution.step(x, last))


class ConvEncoderLayer(nn.Module):
    """A block of the encoder (§3.2): a gated convolution and a residual connection."""

    def __init__(self, d_in: int, d_out: int, *, kernel: int, p_drop: float) -> None:
        super().__init__()
        self.convolution = GatedConvolution(d_in, d_out, kernel=kernel, causal=False, p_drop=p_drop)
        self.residual = linear(d_in, d_out) if d_in != d_out else nn.Identity()

    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        """Map [B, S, d_in] to [B, S, d_out]; the scale is sqrt(0.5), and 0 at padding."""
        output: Tensor = (self.convolution(x) + self.residual(x)) * scale
        return output


class ConvDecoderLayer(nn.Module):
    """A block of the decoder: a causal gated convolution, then attention (§3.3)."""

    def __init__(self, d_in: int, d_out: int, *, kernel: int, d_model: int, p_drop: float) -> None:
        super().__init__()
        self.convolution = GatedConvolution(d_in, d_out, kernel=kernel, causal=True, p_drop=p_drop)
        self.residual = linear(d_in, d_out) if d_in != d_out else nn.Identity()
        self.w_d = linear(d_out, d_model)
        self.w_c = linear(d_model, d_out)

    def forward(self, x: Tensor, embedded: Tensor, memory: ConvMemory) -> tuple[Tensor, Tensor]:
        """Map [B, T, d_in] to [B, T, d_out]; return also the attention weights."""
        return self._attend(self.convolution(x), x, embedded, memory)

    def step(
        self, x: Tensor, last: HypothesisState | None, embedded: Tensor, memory: ConvMemory
    ) -> Tensor:
        """Compute one position of each hypothesis, [B, k, d_in]."""
        return self._attend(self.convolution.step(x, last), x, embedded, memory)[0]

    def _attend(
        self, h: Tensor, x: Tensor, embedded: Tensor, memory: ConvMemory
    ) -> tuple[Tensor, Tensor]:
        d = self.w_d(h) + embedded  # eq. 1
        c, weights = attend_unscaled(d, memory)
        h = (self.w_c(c) + h) * HALF
        return (h + self.residual(x)) * HALF, weights


def attend_unscaled(d: Tensor, memory: ConvMemory) -> tuple[Tensor, Tensor]:
    """§3.3: weights a = softmax(d · z), context c = Σ a (z + e); returns (context, weights)."""
    scores = torch.baddbmm(memory.added, d, memory.keys.transpose(1, 2))
    weights = scores.softmax(dim=-1)  # [B, T, S]
    return weights @ memory.values, weights


@dataclass(frozen=True)
class ConvS2SState(StateGroup):
    """The state of the decoder between two steps of a search."""

    keys: SentenceState
    values: SentenceState
    added: SentenceState
    layers: tuple[HypothesisState | None, ...]

    @property
    def memory(self) -> ConvMemory:
        """The source, as the encoder returned it."""
        return ConvMemory(self.keys.tensor, self.values.tensor, self.added.tensor)


class ConvS2S(Seq2Seq):
    """§3, whole."""

    def __init__(self, c: ConvS2SConfig) -> None:
        super().__init__()
        d, p_drop = c.d_model, c.p_drop
        encoder, decoder = parse_layers(c.encoder_layers), parse_layers(c.decoder_layers)
        self.embedding = Embedding(c.vocab_size, d, scale=1.0, std=EMBEDDING_STD)
        self.src_embedding = (
            SourceEmbedding(c.src_vocab_size, d, scale=1.0, std=EMBEDDING_STD)
            if c.src_vocab_size
            else None
        )
        self.src_positions = LearnedPositions(c.max_positions, d, std=EMBEDDING_STD)
        self.tgt_positions = LearnedPositions(c.max_positions, d, std=EMBEDDING_STD)
        self.dropout = Dropout(p_drop)
        self.encoder_in = linear(d, encoder[0][0], p_drop=p_drop)
        self.encoder = _stack(
            ConvEncoderLayer(d_in, d_out, kernel=kernel, p_drop=p_drop)
            for d_in, (d_out, kernel) in zip(_inputs(encoder), encoder, strict=True)
        )
        self.encoder_out = linear(encoder[-1][0], d)
        self.decoder_in = linear(d, decoder[0][0], p_drop=p_drop)
        self.decoder = _stack(
            ConvDecoderLayer(d_in, d_out, kernel=kernel, d_model=d, p_drop=p_drop)
            for d_in, (d_out, kernel) in zip(_inputs(decoder), decoder, strict=True)
        )
        self.decoder_out = linear(decoder[-1][0], d)

    @property
    def abilities(self) -> Abilities:
        """What a ConvS2S can do beyond the plain protocol."""
        return Abilities(recorded_step=True, packed_weights=True, attention_maps=True)

    @property
    def projection(self) -> Tensor:
        """The matrix, [V, d_model], that turns states into scores: the embedding's."""
        return self.embedding.projection

    def encode(self, src: Tensor, layout: PackedLayout | None = None) -> ConvMemory:
        """Encode padded source ids, [B, S]."""
        del layout
        real = src != PAD_ID  # [B, S]
        embedding = self.src_embedding or self.embedding
        e = self.dropout(embedding(src) + self.src_positions(src.size(1)))  # [B, S, d_model]
        x = self.encoder_in(e)
        is_real = real[:, :, None].to(x.dtype)  # [B, S, 1]
        x, scale = x * is_real, HALF * is_real
        for layer in self.encoder:
            x = layer(x, scale)
        z = scale_gradient(self.encoder_out(x), 1 / (2 * len(self.decoder)))  # [B, S, d_model]
        # §3.4: a context is multiplied by m · sqrt(1/m) for m source tokens; here, the values are.
        dtype = torch.promote_types(e.dtype, torch.float32)  # more bits than a length may have
        length = real.sum(dim=1).clamp(min=1)[:, None, None].to(dtype)  # [B, 1, 1]
        values = (z + e) * (HALF * length.sqrt())
        allowed = padding_allowed(src, PAD_ID)[:, 0]  # [B, 1, S]
        added = torch.zeros_like(allowed, dtype=z.dtype).masked_fill(~allowed, -math.inf)
        return ConvMemory(HALF * z, values.to(z.dtype), added)  # HALF is for the sum d + g

    def decode_states(
        self, memory: ConvMemory, tgt_in: Tensor, layout: PackedLayout | None = None
    ) -> Tensor:
        """Return a state for every prefix of tgt_in, [B, T]: [B, T, d_model]."""
        del layout
        return self._decode(memory, tgt_in)[0]

    def attention_maps(self, src: Tensor, tgt_in: Tensor) -> AttentionMaps:
        """Return how each decoder layer attends to the source: one head a layer."""
        _, weights = self._decode(self.encode(src), tgt_in)
        return AttentionMaps(encoder=None, decoder=None, cross=torch.stack(weights)[:, :, None])

    def _decode(self, memory: ConvMemory, tgt_in: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the last states and each layer's attention weights.

        Padding is last, so no token sees it.
        """
        embedded = self._embed(tgt_in, self.tgt_positions(tgt_in.size(1)))  # [B, T, d_model]
        x = self.decoder_in(embedded)
        embedded = embedded.to(x.dtype)
        weights = []
        for layer in self.decoder:
            x, attended = layer(x, embedded, memory)
            weights.append(attended)
        states: Tensor = self.dropout(self.decoder_out(x))  # [B, T, d_model]
        return states, weights

    def start(self, memory: ConvMemory, *, hypotheses: int, max_steps: int) -> ConvS2SState:
        """Return the state before the first token."""
        self.tgt_positions.check(max_steps)
        return ConvS2SState(
            SentenceState(memory.keys.contiguous()),
            SentenceState(memory.values.contiguous()),
            SentenceState(memory.added),
            tuple(
                layer.convolution.convolution.start(memory.keys, hypotheses=hypotheses)
                for layer in self.decoder
            ),
        )

    def step(
        self, last_ids: Tensor, state: ConvS2SState, *, position: Tensor, reach: int
    ) -> Tensor:
        """Read the last token of each hypothesis, [B, k]; score the next: logits, [B, k, V]."""
        del reach
        memory = state.memory
        embedded = self._embed(last_ids, self.tgt_positions.at(position))  # [B, k, d_model]
        x = self.decoder_in(embedded)
        for layer, last in zip(self.decoder, state.layers, strict=True):
            x = layer.step(x, last, embedded, memory)
        return self.embedding.logits(self.decoder_out(x))

    def _embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(self.embedding(ids) + positions)
        return embedded


class _ScaledGradient(torch.autograd.Function):
    """Returns its input; the gradient is multiplied."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None


def scale_gradient(x: Tensor, factor: float) -> Tensor:
    """§3.4: slow the encoder down, which gets the gradients of every layer's attention."""
    scaled: Tensor = _ScaledGradient.apply(x, factor)  # type: ignore[no-untyped-call]
    return scaled


Layer = TypeVar("Layer", ConvEncoderLayer, ConvDecoderLayer)


def _stack(layers: Iterable[Layer]) -> Sequence[Layer]:
    return cast("Sequence[Layer]", nn.ModuleList(layers))  # mypy sees a ModuleList of Modules


def _inputs(layers: Sequence[tuple[int, int]]) -> list[int]:
    """Return the width of each layer's input; the first layer's is its own."""
    widths = [width for width, _ in layers]
    return [widths[0], *widths[:-1]]
