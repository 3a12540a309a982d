"""A kind of model that no other engine has: the next token depends on the last one alone."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from transduce.config.kinds import ModelKind
from transduce.config.schema import ModelConfig
from transduce.data.packed_layout import PackedLayout
from transduce.models.base import Seq2Seq
from transduce.nn.embedding import Embedding
from transduce.nn.step_state import StateGroup


class BigramConfig(ModelConfig):
    """Its settings are those that every kind has."""

    kind: Literal["bigram"] = "bigram"


@dataclass(frozen=True)
class NoState(StateGroup):
    """What it keeps between two steps: nothing."""


class Bigram(Seq2Seq):
    """Scores the next token by the embedding of the last one."""

    def __init__(self, config: BigramConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config.vocab_size, config.d_model)

    @property
    def projection(self) -> Tensor:
        return self.embedding.projection

    def encode(self, src: Tensor, layout: PackedLayout | None = None) -> None:
        assert layout is None, src.shape

    def decode_states(
        self, memory: None, tgt_in: Tensor, layout: PackedLayout | None = None
    ) -> Tensor:
        assert layout is None, memory
        states: Tensor = self.embedding(tgt_in)
        return states

    def start(self, memory: None, *, hypotheses: int, max_steps: int) -> NoState:
        assert hypotheses * max_steps, memory
        return NoState()

    def step(self, last_ids: Tensor, state: NoState, *, position: Tensor, reach: int) -> Tensor:
        assert int(position) < reach, state
        return self.embedding.logits(self.embedding(last_ids))


KIND = ModelKind("bigram", BigramConfig, Bigram)
