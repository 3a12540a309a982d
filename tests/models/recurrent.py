"""A kind of model that is no Transformer: the mean of the source, then a recurrent decoder."""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from transduce.config.kinds import ModelKind
from transduce.config.schema import Config, Count, ModelConfig
from transduce.data.packed_layout import PackedLayout
from transduce.models.base import Seq2Seq
from transduce.nn.embedding import Embedding
from transduce.nn.step_state import HypothesisState, StateGroup
from transduce.text.special_ids import PAD_ID


class RecurrentConfig(ModelConfig):
    """The settings of every kind, and one of its own."""

    kind: Literal["recurrent"] = Field(default="recurrent", description="the architecture")
    d_recurrent: Count = Field(default=12, description="width of the recurrent state")


@dataclass(frozen=True)
class RecurrentState(StateGroup):
    """The last state of each hypothesis, and the mean of the source."""

    last: HypothesisState
    source: HypothesisState


class Recurrent(Seq2Seq):
    """Reads the source as the mean of its embeddings; a GRU cell reads it beside each token."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config.vocab_size, config.d_model)
        self.cell = nn.GRUCell(2 * config.d_model, config.d_recurrent)
        self.output = nn.Linear(config.d_recurrent, config.d_model)

    @property
    def projection(self) -> Tensor:
        return self.embedding.projection

    def encode(self, src: Tensor, layout: PackedLayout | None = None) -> Tensor:
        assert layout is None, "it does not read packed sequences"
        is_real = (src != PAD_ID)[:, :, None]
        total: Tensor = (self.embedding(src) * is_real).sum(dim=1)
        return total / is_real.sum(dim=1)

    def decode_states(
        self, memory: Tensor, tgt_in: Tensor, layout: PackedLayout | None = None
    ) -> Tensor:
        assert layout is None, "it does not read packed sequences"
        last = memory.new_zeros(len(memory), self.cell.hidden_size)
        states = []
        for embedded in self.embedding(tgt_in).unbind(dim=1):
            last = self.cell(torch.cat([embedded, memory], dim=-1), last)
            states.append(self.output(last))
        return torch.stack(states, dim=1)

    def start(self, memory: Tensor, *, hypotheses: int, max_steps: int) -> RecurrentState:
        assert max_steps > 0
        shape = (len(memory), hypotheses, self.cell.hidden_size)
        return RecurrentState(
            HypothesisState(memory.new_zeros(shape)),
            HypothesisState(memory[:, None].expand(-1, hypotheses, -1).contiguous()),
        )

    def step(
        self, last_ids: Tensor, state: RecurrentState, *, position: Tensor, reach: int
    ) -> Tensor:
        assert int(position) < reach
        read = torch.cat([self.embedding(last_ids), state.source.tensor], dim=-1)
        last: Tensor = self.cell(read.flatten(0, 1), state.last.tensor.flatten(0, 1))
        state.last.update(last.view_as(state.last.tensor))
        return self.embedding.logits(self.output(state.last.tensor))


def recurrent_small() -> Config:
    """A small one."""
    return Config(model=RecurrentConfig(vocab_size=100, d_model=8, d_recurrent=6))


KIND = ModelKind("recurrent", RecurrentConfig, Recurrent, (recurrent_small,))
NO_KIND = RecurrentConfig
