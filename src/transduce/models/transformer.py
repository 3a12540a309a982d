"""Figure 1, the Transformer: how the parts of `nn` go together. `build` gives them their sizes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from transduce.models.base import Memory
from transduce.models.transformer_state import TransformerState
from transduce.nn.attention import Attend, MultiHeadAttention, attend_fused
from transduce.nn.dropout import Dropout
from transduce.nn.embedding import Embedding
from transduce.nn.feed_forward import FeedForward
from transduce.nn.masks import padding_allowed
from transduce.nn.positions import Positions
from transduce.nn.sublayer import AddNorm


@dataclass(frozen=True)
class Parts:
    """What every layer is made of, as functions that make a new one."""

    attention: Callable[[], MultiHeadAttention]
    feed_forward: Callable[[], FeedForward]
    add_norm: Callable[[], AddNorm]


class EncoderLayer(nn.Module):
    """Figure 1, one block on the left."""

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self.self_attention = parts.attention()
        self.feed_forward = parts.feed_forward()
        self.add_norm_1 = parts.add_norm()
        self.add_norm_2 = parts.add_norm()

    def forward(self, x: Tensor, *, allowed: Tensor, attend: Attend) -> Tensor:
        """Map [B, S, d_model] to the same shape."""
        x = self.add_norm_1(x, lambda x: self.self_attention(x, x, allowed=allowed, attend=attend))
        x = self.add_norm_2(x, self.feed_forward)
        return x


class DecoderLayer(nn.Module):
    """Figure 1, one block on the right."""

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self.self_attention = parts.attention()
        self.cross_attention = parts.attention()
        self.feed_forward = parts.feed_forward()
        self.add_norm_1 = parts.add_norm()
        self.add_norm_2 = parts.add_norm()
        self.add_norm_3 = parts.add_norm()

    def forward(self, x: Tensor, memory: Memory, *, attend: Attend) -> Tensor:
        """Map [B, T, d_model] to the same shape. Padding stands last: no real position sees it."""
        x = self.add_norm_1(x, lambda x: self.self_attention(x, x, causal=True, attend=attend))
        x = self.add_norm_2(
            x,
            lambda x: self.cross_attention(x, memory.states, allowed=memory.allowed, attend=attend),
        )
        x = self.add_norm_3(x, self.feed_forward)
        return x

    def step(self, x: Tensor, state: TransformerState, place: "Place", *, layer: int) -> Tensor:
        """Do the same for one position of each hypothesis, [B, k, d_model], from what is kept."""

        def look_back(x: Tensor) -> Tensor:
            kept = self.self_attention.keys_values(x)
            k, v = state.append(layer, *kept, place.position, reach=place.reach)
            return self.self_attention.query(x, k, v, allowed=place.allowed, attend=place.attend)

        def look_at_memory(x: Tensor) -> Tensor:  # one sentence's hypotheses are k queries to it
            k, v = state.memory_keys[layer], state.memory_values[layer]
            return self.cross_attention.query(x, k, v, allowed=state.memory_allowed)

        x = self.add_norm_1(x, look_back)
        x = self.add_norm_2(x, look_at_memory)
        x = self.add_norm_3(x, self.feed_forward)
        return x


@dataclass(frozen=True)
class Place:
    """Where a search stands: what every layer of a step needs to know."""

    position: Tensor  # of one element, on the device
    reach: int
    allowed: Tensor | None
    attend: Attend


class Transformer(nn.Module):
    """Figure 1, whole. Obeys the protocol `Seq2Seq`."""

    def __init__(
        self,
        embedding: Embedding,
        positions: Positions,
        parts: Parts,
        *,
        n_layers: int,
        last_norm: Callable[[], nn.Module],
        p_drop: float,
        pad_id: int,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.positions = positions
        self.dropout = Dropout(p_drop)
        self.encoder = _stack(EncoderLayer(parts) for _ in range(n_layers))
        self.encoder_norm = last_norm()
        self.decoder = _stack(DecoderLayer(parts) for _ in range(n_layers))
        self.decoder_norm = last_norm()
        self.pad_id = pad_id

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """Score every next token: logits, [B, T, V]."""
        return self.decode(self.encode(src), tgt_in)

    def encode(self, src: Tensor, *, attend: Attend = attend_fused) -> Memory:
        """Read the source, [B, S]."""
        allowed = padding_allowed(src, self.pad_id)  # [B, 1, 1, S]
        x = self._embed(src, self.positions(src.size(1)))  # [B, S, d_model]
        for layer in self.encoder:
            x = layer(x, allowed=allowed, attend=attend)
        return Memory(states=self.encoder_norm(x), allowed=allowed)

    def decode(self, memory: Memory, tgt_in: Tensor, *, attend: Attend = attend_fused) -> Tensor:
        """Read the target shifted right, [B, T]; score the token after each of its positions."""
        states = self._last_states(memory, tgt_in, attend=attend)  # [B, T, d_model]
        return self.embedding.logits(states)  # [B, T, V]

    def decode_states(
        self, memory: Memory, tgt_in: Tensor, *, attend: Attend = attend_fused
    ) -> Tensor:
        """Do the same up to the scores; where they have a bias, each state ends with a 1 for it."""
        return self.embedding.with_bias(self._last_states(memory, tgt_in, attend=attend))

    def _last_states(self, memory: Memory, tgt_in: Tensor, *, attend: Attend) -> Tensor:
        x = self._embed(tgt_in, self.positions(tgt_in.size(1)))  # [B, T, d_model]
        for layer in self.decoder:
            x = layer(x, memory, attend=attend)
        states: Tensor = self.decoder_norm(x)  # [B, T, d_model]
        return states

    @property
    def projection(self) -> Tensor:
        """The matrix that turns states into scores, [V, d_model]: the embedding's own (§3.4)."""
        return self.embedding.projection

    def start(self, memory: Memory, *, hypotheses: int, max_steps: int) -> TransformerState:
        """Compute the keys and values of the source once, for all hypotheses and all steps."""
        self.positions.check(max_steps)
        pairs = [layer.cross_attention.keys_values(memory.states) for layer in self.decoder]
        keys, values = zip(*pairs, strict=True)
        return TransformerState.before_first_token(
            torch.stack(keys),
            torch.stack(values),
            memory.allowed,
            hypotheses=hypotheses,
            max_steps=max_steps,
        )

    def step(
        self, last_ids: Tensor, state: TransformerState, *, position: Tensor, reach: int
    ) -> Tensor:
        """Read one token of each hypothesis, [B, k]; score the next: logits, [B, k, V]."""
        state.lengthen(position)
        place = Place(position, reach, *state.look_back(position, reach=reach))
        x = self._embed(last_ids, self.positions.at(position))  # [B, k, d_model]
        for index, layer in enumerate(self.decoder):
            x = layer.step(x, state, place, layer=index)
        return self.embedding.logits(self.decoder_norm(x))

    def _embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(self.embedding(ids) + positions)
        return embedded


Layer = TypeVar("Layer", EncoderLayer, DecoderLayer)


def _stack(layers: Iterable[Layer]) -> Sequence[Layer]:
    return cast("Sequence[Layer]", nn.ModuleList(layers))  # to mypy, a ModuleList forgets of what
