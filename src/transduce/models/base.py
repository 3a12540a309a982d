"""The base class of every architecture, `Seq2Seq`, and what training and search ask of it.

Training reads whole sentences: `encode`, then `decode_states` with the target shifted right. Search
goes token by token: `start`, then `step` with the last token of each hypothesis, and `select` on
the state in between. A model's `Abilities` say what it can do beyond that.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch.nn.functional as F
from torch import Tensor, nn

from transduce.data.packed_layout import PackedLayout
from transduce.errors import InputError
from transduce.nn.mixers.key_ranges import KeyRanges
from transduce.nn.step_state import LayerState as SearchState

State = TypeVar("State", bound=SearchState)


@dataclass(frozen=True)
class Abilities:
    """What a model can do beyond the plain protocol. By default nothing: slower, but correct."""

    packed_sequences: bool = False
    """It reads packed sequences, so its training step can be compiled and recorded."""
    recorded_step: bool = False
    """A search step may be recorded as a CUDA graph: only its shapes depend on the host."""
    packed_weights: bool = False
    """Its `nn.Linear` and `Embedding` modules may be replaced by those of `nn.packed_weights`."""
    multi_token_step: bool = False
    """`multi_token_step` reads several tokens at once during a search, and can go back."""
    step_states: bool = False
    """`step_states` does a step without the product with `projection`, for shortlists."""
    attention_maps: bool = False
    """`attention_maps` returns the weights of its heads, of cross-attention at least."""
    alignment_head: tuple[int, int] | None = None
    """The decoder layer and the head, from 0, whose attention to the source is trained to align."""
    exports: frozenset[str] = frozenset()
    """The formats of `transduce export` that can express it."""


@dataclass(frozen=True)
class Memory:
    """What the encoder hands to the decoder."""

    states: Tensor  # [B, S, d_model]
    allowed: Tensor | KeyRanges  # a mask, [B, 1, 1, S], or ranges of keys


@dataclass(frozen=True)
class TrainingStates:
    """What a training step computes its loss from."""

    states: Tensor  # [B, T, d_model]
    auxiliary: Tensor | None = None  # a scalar, added to the loss of every target token


@dataclass(frozen=True)
class AttentionMaps:
    """The attention weights of every head of every layer over whole sentences.

    A model without self-attention has only those of the decoder to the source.
    """

    cross: Tensor  # [N, B, h, T, S]
    encoder: Tensor | None = None  # each [N, B, h, S, S]
    decoder: Tensor | None = None  # each [N, B, h, T, T]


class Searchable(Protocol[State]):
    """What a search asks of a model: to encode the source, and to decode token by token."""

    def encode(self, src: Tensor) -> Any:
        """Encode source ids, [B, S]."""
        ...

    def start(self, memory: Any, *, hypotheses: int, max_steps: int) -> State:
        """Return the state before the first token, with `hypotheses` of them per sentence."""
        ...

    def step(self, last_ids: Tensor, state: State, *, position: Tensor, reach: int) -> Tensor:
        """Read the last token of each hypothesis, [B, k]; score the next: logits, [B, k, V].

        `position`, [1], on the device, is the number of tokens read before. It is less than
        `reach`: positions from there on are not written yet.
        """
        ...


class MultiTokenSearchable(Searchable[State], Protocol):
    """What speculative decoding asks of a model: to read several tokens in one step, and again."""

    def multi_token_step(
        self, ids: Tensor, state: State, *, position: Tensor, reach: int
    ) -> Tensor:
        """Read T more tokens of each sentence, [B, T]; score the next after each: [B, T, V].

        The state has one hypothesis for each sentence, and no other kind of step reads it.
        `position`, [1], on the device, is the number of tokens read before that still count: a
        smaller one than the last takes back what was read from there on. `reach` is at least
        position + T.
        """
        ...


class Seq2Seq(nn.Module, ABC):
    """A sequence-to-sequence model with one shared vocabulary: the base class of all kinds."""

    @property
    def abilities(self) -> Abilities:
        """What the model can do beyond the plain protocol."""
        return Abilities()

    @property
    @abstractmethod
    def projection(self) -> Tensor:
        """The matrix, [V, d_model], that turns the decoder's states into scores (§3.4)."""

    @abstractmethod
    def encode(self, src: Tensor, layout: PackedLayout | None = None) -> Any:
        """Encode padded source ids, [B, S]; with a layout, a row of packed sentences, [1, S].

        Only models with the ability `packed_sequences` are given a layout.
        """

    @abstractmethod
    def decode_states(
        self, memory: Any, tgt_in: Tensor, layout: PackedLayout | None = None
    ) -> Tensor:
        """Return a state for every prefix of tgt_in, [B, T]: [B, T, d_model].

        The loss takes these and the projection, because all logits at once would fill the memory.
        """

    def training_states(
        self,
        src: Tensor,
        tgt_in: Tensor,
        layout: PackedLayout | None = None,
        links: Tensor | None = None,
    ) -> TrainingStates:
        """Run encoder and decoder for a training step; a model with a loss of its own adds it.

        `links`, [B, T], has for each target token the column of the source token that it
        translates, or -1; only models with an `alignment_head` are given them.
        """
        assert links is None, "only an alignment head is trained with links"
        if layout is None:
            return TrainingStates(self.decode_states(self.encode(src), tgt_in))
        return TrainingStates(self.decode_states(self.encode(src, layout), tgt_in, layout))

    @abstractmethod
    def start(self, memory: Any, *, hypotheses: int, max_steps: int) -> Any:
        """Return the search state before the first token (see `Searchable`)."""

    @abstractmethod
    def step(self, last_ids: Tensor, state: Any, *, position: Tensor, reach: int) -> Tensor:
        """Read the last token of each hypothesis, [B, k]; score the next: logits, [B, k, V]."""

    def step_states(self, last_ids: Tensor, state: Any, *, position: Tensor, reach: int) -> Tensor:
        """Do a step, but return what the projection turns into its logits: [B, k, d_model].

        Only models with the ability of this name are asked to.
        """
        del last_ids, state, position, reach
        raise InputError(f"a {type(self).__name__} model scores its whole vocabulary")

    def multi_token_step(self, ids: Tensor, state: Any, *, position: Tensor, reach: int) -> Tensor:
        """Read T more tokens of each sentence, [B, T], at once (see `MultiTokenSearchable`).

        Only models with the ability of this name are asked to.
        """
        del ids, state, position, reach
        raise InputError(f"a {type(self).__name__} model reads one token a step")

    def decode(self, memory: Any, tgt_in: Tensor) -> Tensor:
        """Score every next token after every prefix of tgt_in, [B, T]: logits, [B, T, V]."""
        return F.linear(self.decode_states(memory, tgt_in), self.projection)

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """Score every next token: logits, [B, T, V]."""
        return self.decode(self.encode(src), tgt_in)

    def compile_layers(self) -> None:
        """Have torch compile the layers for training, each when it is first used."""

    def attention_maps(self, src: Tensor, tgt_in: Tensor) -> AttentionMaps:
        """Return all attention weights for a source, [B, S], and a target shifted right, [B, T]."""
        del src, tgt_in
        raise InputError(f"a {type(self).__name__} model has no attention to show")
