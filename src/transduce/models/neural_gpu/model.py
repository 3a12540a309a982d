"""The Extended Neural GPU (Kaiser and Bengio, 2016): an active memory instead of attention.

The source is written into the first column of a mental image. An encoder of convolutions updates
the whole image as many times as the sentence has tokens. Then, for every token of the target, a
decoder updates it once more, beside a tape of what was written so far, and the t-th output is read
from row t of the first column.

Shapes: n rows of an image, w columns, d_model maps. The rows of a sentence follow from its own
length, and rows beyond them stay 0, so a sentence gives the same in any batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transduce.data.packed_layout import PackedLayout
from transduce.models.base import Abilities, Seq2Seq
from transduce.models.neural_gpu.cgru import CGRU
from transduce.models.neural_gpu.settings import NeuralGPUConfig
from transduce.nn.dropout import Dropout
from transduce.nn.embedding import Embedding, SourceEmbedding
from transduce.nn.step_state import HypothesisState, SentenceState, StateGroup
from transduce.text.special_ids import PAD_ID


@dataclass(frozen=True)
class MentalImage:
    """The image that the encoder leaves, s_fin."""

    s: Tensor  # [B, d_model, n, w]
    rows: Tensor  # [B]

    @property
    def is_row(self) -> Tensor:
        """Which rows each sentence has: 1 or 0, shaped like an image."""
        found = torch.arange(self.s.size(2), device=self.rows.device) < self.rows[:, None]
        return found[:, None, :, None].to(self.s.dtype)  # [B, 1, n, 1]


@dataclass(frozen=True)
class NeuralGPUState(StateGroup):
    """What a search keeps: of each hypothesis its image and its tape."""

    image: HypothesisState  # of [B, k, d_model, n, w]
    tape: HypothesisState  # of [B, k, d_model, n]
    rows: SentenceState  # of [B]


class NeuralGPU(Seq2Seq):
    """Kaiser and Bengio (2016), §2.2 and §2.3."""

    def __init__(self, c: NeuralGPUConfig) -> None:
        super().__init__()
        self.cells_per_token, self.spare_cells = c.cells_per_token, c.spare_cells
        self.image_width = c.image_width
        self.embedding = Embedding(c.vocab_size, c.d_model)
        self.src_embedding = (
            SourceEmbedding(c.src_vocab_size, c.d_model) if c.src_vocab_size else None
        )
        self.dropout = Dropout(c.p_drop)
        self.encoder = _stack(c, reads_tape=False)
        self.decoder = _stack(c, reads_tape=True)
        self.output = nn.Linear(c.d_model, c.vocab_size, bias=False)

    @property
    def abilities(self) -> Abilities:
        """A step may be recorded: the cell that it writes and reads is a tensor."""
        return Abilities(recorded_step=True)

    @property
    def projection(self) -> Tensor:
        """The paper's O, [V, d_model]."""
        return self.output.weight

    def encode(self, src: Tensor, layout: PackedLayout | None = None) -> MentalImage:
        """Write the source, [B, S], into an image and update it once for each of its tokens."""
        assert layout is None, "it does not read packed sequences"
        is_token = src != PAD_ID  # [B, S]
        tokens = is_token.sum(dim=1)  # [B]
        embedding = self.src_embedding or self.embedding
        x = self.dropout(embedding(src)) * is_token[:, :, None]  # [B, S, d_model]
        missing = (self.cells_per_token - 1) * src.size(1) + self.spare_cells
        s = F.pad(x.mT[..., None], (0, self.image_width - 1, 0, missing))  # [B, d_model, n, w]
        image = MentalImage(s, self._rows(tokens))
        is_row = image.is_row
        for step in range(src.size(1)):
            updated = s
            for layer in self.encoder:
                updated = layer(updated) * is_row  # [B, d_model, n, w]
            s = torch.where((step < tokens)[:, None, None, None], updated, s)
        return MentalImage(s, image.rows)

    def decode_states(
        self, memory: MentalImage, tgt_in: Tensor, layout: PackedLayout | None = None
    ) -> Tensor:
        """Return a state for every prefix of tgt_in, [B, T], one update of the image for each."""
        assert layout is None, "it does not read packed sequences"
        embedded = self.dropout(self.embedding(tgt_in))  # [B, T, d_model]
        s, is_row = memory.s, memory.is_row
        tape = s.new_zeros(s.shape[:3])  # [B, d_model, n]
        states = []
        for position, x in enumerate(embedded.unbind(dim=1)):
            cell = (memory.rows - 1).clamp(max=position)  # [B]
            s, tape, state = self._next(s, tape, x, cell, is_row)
            states.append(state)
        read: Tensor = self.dropout(torch.stack(states, dim=1))  # [B, T, d_model]
        return read

    def start(self, memory: MentalImage, *, hypotheses: int, max_steps: int) -> NeuralGPUState:  # noqa: ARG002
        """Return the state before the first token."""
        image = memory.s[:, None].repeat(1, hypotheses, 1, 1, 1)  # [B, k, d_model, n, w]
        tape = image.new_zeros(image.shape[:4])  # [B, k, d_model, n]
        return NeuralGPUState(
            HypothesisState(image), HypothesisState(tape), SentenceState(memory.rows)
        )

    def step(
        self, last_ids: Tensor, state: NeuralGPUState, *, position: Tensor, reach: int
    ) -> Tensor:
        """Read the last token of each hypothesis, [B, k]; score the next: logits, [B, k, V]."""
        del reach
        rows = state.rows.tensor[:, None].expand_as(last_ids).flatten()  # [B*k]
        s = state.image.tensor.flatten(0, 1)  # [B*k, d_model, n, w]
        s, tape, read = self._next(
            s,
            state.tape.tensor.flatten(0, 1),
            self.embedding(last_ids).flatten(0, 1),
            torch.minimum(rows - 1, position),
            MentalImage(s, rows).is_row,
        )
        state.image.update(s.view_as(state.image.tensor))
        state.tape.update(tape.view_as(state.tape.tensor))
        logits: Tensor = self.output(read).unflatten(0, last_ids.shape)  # [B, k, V]
        return logits

    def _next(
        self, s: Tensor, tape: Tensor, x: Tensor, cell: Tensor, is_row: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Write a token, [B, d_model], to a cell of the tape, update the image, read that cell.

        Where a target is longer than the image, its last cell is written and read again.
        """
        at = cell[:, None, None].expand(-1, s.size(1), 1)  # [B, d_model, 1]
        tape = tape.scatter(2, at, x[:, :, None].to(tape.dtype))
        for layer in self.decoder:
            s = layer(s, tape) * is_row
        return s, tape, s[..., 0].gather(2, at)[..., 0]

    def _rows(self, tokens: Tensor) -> Tensor:
        """Return the rows of the images of sentences with so many tokens."""
        return tokens.clamp(min=1) * self.cells_per_token + self.spare_cells


def _stack(c: NeuralGPUConfig, *, reads_tape: bool) -> Sequence[CGRU]:
    layers = [CGRU(c.d_model, c.image_width, reads_tape=reads_tape) for _ in range(c.n_layers)]
    return cast("Sequence[CGRU]", nn.ModuleList(layers))  # mypy sees a ModuleList of Modules
