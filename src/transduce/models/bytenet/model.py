"""ByteNet (Kalchbrenner et al. 2016): a decoder of dilated convolutions on top of an encoder.

Section numbers are those of that paper. There is no attention: the decoder's position t reads the
encoder's representation at t, so time is linear in the lengths. The embedding is shared by source,
target and output, as everywhere here; in the paper each has its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transduce.data.packed_layout import PackedLayout
from transduce.models.base import Abilities, Seq2Seq
from transduce.models.bytenet.settings import ByteNetConfig
from transduce.nn.add_norm import NORM_EPSILON
from transduce.nn.dropout import Dropout
from transduce.nn.embedding import Embedding, SourceEmbedding
from transduce.nn.initialise import keep_variance_
from transduce.nn.mixers.convolution import Convolution
from transduce.nn.step_state import HypothesisState, SentenceState, StateGroup
from transduce.text.special_ids import PAD_ID


class ByteNetBlock(nn.Module):
    """§3.6 and Figure 3, left: a residual block of ReLUs, for translation.

    x + W_2 ReLU(norm(dilated convolution(ReLU(norm(W_1 ReLU(norm(x)))))))), where W_1 halves the
    width and W_2 restores it. Dropout on the sum's second term is not in the paper.
    """

    def __init__(
        self, d_model: int, *, kernel: int, dilation: int, causal: bool, p_drop: float
    ) -> None:
        super().__init__()
        d = d_model // 2
        self.norm_1, self.norm_2, self.norm_3 = (
            nn.LayerNorm(width, eps=NORM_EPSILON) for width in (d_model, d, d)
        )
        self.w_1 = nn.Linear(d_model, d)
        self.convolution = Convolution(
            nn.Linear(kernel * d, d), kernel=kernel, dilation=dilation, causal=causal
        )
        self.w_2 = nn.Linear(d, d_model)
        self.dropout = Dropout(p_drop)

    def init_weights(self) -> None:
        """Draw so that each projection keeps the variance of its input."""
        for projection in (self.w_1, self.convolution.projection, self.w_2):
            keep_variance_(cast("nn.Linear", projection))
        for norm in (self.norm_1, self.norm_2, self.norm_3):
            norm.reset_parameters()

    def forward(self, x: Tensor, is_inside: Tensor | None = None) -> Tensor:
        """Map [B, T, d_model] to the same shape.

        A convolution sees zeros where `is_inside`, [B, T, 1], is 0.
        """
        inputs = self._narrow(x)
        if is_inside is not None:
            inputs = inputs * is_inside
        return self._widen(x, self.convolution(inputs))

    def step(self, x: Tensor, last: HypothesisState | None) -> Tensor:
        """Compute one position of each hypothesis, [B, k, d_model]."""
        return self._widen(x, self.convolution.step(self._narrow(x), last))

    def _narrow(self, x: Tensor) -> Tensor:
        return F.relu(self.norm_2(self.w_1(F.relu(self.norm_1(x)))))

    def _widen(self, x: Tensor, convolved: Tensor) -> Tensor:
        joined: Tensor = x + self.dropout(self.w_2(F.relu(self.norm_3(convolved))))
        return joined


@dataclass(frozen=True)
class ByteNetState(StateGroup):
    """The state of the decoder between two steps of a search."""

    representation: SentenceState
    blocks: tuple[HypothesisState | None, ...]


class ByteNet(Seq2Seq):
    """Figure 1: the encoder below, and the decoder stacked on top of it."""

    def __init__(self, c: ByteNetConfig) -> None:
        super().__init__()
        d = c.d_model
        self.a, self.b = c.unfold_a, c.unfold_b
        self.embedding = Embedding(c.vocab_size, d)
        self.src_embedding = SourceEmbedding(c.src_vocab_size, d) if c.src_vocab_size else None
        self.dropout = Dropout(c.p_drop)
        self.encoder = _blocks(c, causal=False)
        self.encoder_norm = nn.LayerNorm(d, eps=NORM_EPSILON)
        self.decoder = _blocks(c, causal=True)
        self.decoder_norm = nn.LayerNorm(d, eps=NORM_EPSILON)
        self.output = nn.Linear(d, d)

    @property
    def abilities(self) -> Abilities:
        """What a ByteNet can do beyond the plain protocol."""
        return Abilities(recorded_step=True, packed_weights=True)

    @property
    def projection(self) -> Tensor:
        """The matrix, [V, d_model], that turns states into scores: the embedding's."""
        return self.embedding.projection

    def encode(self, src: Tensor, layout: PackedLayout | None = None) -> Tensor:
        """Encode padded source ids, [B, S], to the representation of each target position.

        §3.2, dynamic unfolding: a sentence of n tokens gets a · n + b positions. All later ones are
        zeros; there is at least one of them.
        """
        del layout
        width = math.ceil(self.a * src.size(1) + self.b) + 2  # for rounding, and for zeros
        ids = F.pad(src, (0, width - src.size(1)), value=PAD_ID)
        real = ids != PAD_ID
        limit = self.a * real.sum(dim=1, keepdim=True) + self.b  # [B, 1]
        inside = torch.arange(width, device=src.device) < limit
        x = self.dropout((self.src_embedding or self.embedding)(ids))
        x = x * real[:, :, None].to(x.dtype)
        is_inside = inside[:, :, None].to(x.dtype)
        for block in self.encoder:
            x = block(x, is_inside)
        representation: Tensor = self.encoder_norm(x) * is_inside
        return representation

    def decode_states(
        self, memory: Tensor, tgt_in: Tensor, layout: PackedLayout | None = None
    ) -> Tensor:
        """Return a state for every prefix of tgt_in, [B, T]: [B, T, d_model]."""
        del layout
        missing = max(0, tgt_in.size(1) - memory.size(1))
        read = F.pad(memory, (0, 0, 0, missing))[:, : tgt_in.size(1)]
        x = self.dropout(self.embedding(tgt_in)) + read  # [B, T, d_model]
        for block in self.decoder:
            x = block(x)
        return self._output(x)

    def start(self, memory: Tensor, *, hypotheses: int, max_steps: int) -> ByteNetState:
        """Return the state before the first token."""
        del max_steps
        return ByteNetState(
            SentenceState(memory),
            tuple(block.convolution.start(memory, hypotheses=hypotheses) for block in self.decoder),
        )

    def step(
        self, last_ids: Tensor, state: ByteNetState, *, position: Tensor, reach: int
    ) -> Tensor:
        """Read the last token of each hypothesis, [B, k]; score the next: logits, [B, k, V]."""
        del reach
        representation = state.representation.tensor
        at = position.clamp(max=representation.size(1) - 1)  # the last is zeros
        x = self.embedding(last_ids) + representation.index_select(1, at)  # [B, k, d_model]
        for block, last in zip(self.decoder, state.blocks, strict=True):
            x = block.step(x, last)
        return self.embedding.logits(self._output(x))

    def _output(self, x: Tensor) -> Tensor:
        output: Tensor = self.dropout(self.output(F.relu(self.decoder_norm(x))))
        return output


def _blocks(c: ByteNetConfig, *, causal: bool) -> Sequence[ByteNetBlock]:
    blocks = nn.ModuleList(
        ByteNetBlock(c.d_model, kernel=c.kernel, dilation=dilation, causal=causal, p_drop=c.p_drop)
        for dilation in c.dilations
    )
    return cast("Sequence[ByteNetBlock]", blocks)  # mypy sees a ModuleList of Modules
