"""Figure 1, the Transformer: how the parts of `nn` go together. `build` gives them their sizes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from transduce.models.base import Memory
from transduce.models.transformer_state import TransformerState
from transduce.nn.attention import Allowed, Attend, MultiHeadAttention, attend_fused
from transduce.nn.dropout import Dropout
from transduce.nn.embedding import Embedding
from transduce.nn.feed_forward import FeedForward
from transduce.nn.masks import padding_allowed
from transduce.nn.positions import Positions
from transduce.nn.spans import Layout, Spans
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

    def forward(self, x: Tensor, *, allowed: Allowed, attend: Attend) -> Tensor:
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

    def forward(
        self, x: Tensor, memory: Memory, *, allowed: Spans | None, attend: Attend
    ) -> Tensor:
        """Map [B, T, d_model] to the same shape. Padding stands last: no real position sees it."""
        x = self.add_norm_1(
            x, lambda x: self.self_attention(x, x, allowed=allowed, causal=True, attend=attend)
        )
        x = self.add_norm_2(
            x,
            lambda x: self.cross_attention(x, memory.states, allowed=memory.allowed, attend=attend),
        )
        x = self.add_norm_3(x, self.feed_forward)
        return x

    def step(self, x: Tensor, state: TransformerState, place: "Place", *, layer: int) -> Tensor:
        """Do the same for one position of each hypothesis, [B, k, d_model], from what is kept."""

        def look_back(x: Tensor) -> Tensor:
            q, k, v = self.self_attention.project(x)
            k, v = state.append(layer, k, v, place.position, reach=place.reach)
            return self.self_attention.look(q, k, v, allowed=place.allowed, attend=place.attend)

        def look_at_memory(x: Tensor) -> Tensor:  # one sentence's hypotheses are k queries to it
            k, v = state.memory_keys[layer], state.memory_values[layer]
            q = self.cross_attention.queries(x)
            return self.cross_attention.look(q, k, v, allowed=state.memory_allowed)

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

    def encode(
        self, src: Tensor, layout: Layout | None = None, *, attend: Attend = attend_fused
    ) -> Memory:
        """Read the source, [B, S]: padded sentences, or a row of them laid out end to end."""
        reading: Allowed
        from_target: Tensor | Spans
        if layout is None:
            positions = self.positions(src.size(1))  # [S, d_model]
            mask = padding_allowed(src, self.pad_id)  # [B, 1, 1, S]
            reading, from_target = mask, mask
        else:
            positions = self.positions.at(layout.src_positions)  # [S, d_model]
            reading, from_target = layout.src_to_src, layout.tgt_to_src
        x = self._embed(src, positions)  # [B, S, d_model]
        for layer in self.encoder:
            x = layer(x, allowed=reading, attend=attend)
        return Memory(states=self.encoder_norm(x), allowed=from_target)

    def decode(self, memory: Memory, tgt_in: Tensor, *, attend: Attend = attend_fused) -> Tensor:
        """Read the target shifted right, [B, T]; score the token after each of its positions."""
        states = self._last_states(memory, tgt_in, attend=attend)  # [B, T, d_model]
        return self.embedding.logits(states)  # [B, T, V]

    def decode_states(
        self,
        memory: Memory,
        tgt_in: Tensor,
        layout: Layout | None = None,
        *,
        attend: Attend = attend_fused,
    ) -> Tensor:
        """Do the same up to the scores; where they have a bias, each state ends with a 1 for it."""
        states = self._last_states(memory, tgt_in, layout, attend=attend)  # [B, T, d_model]
        return self.embedding.with_bias(states)

    def _last_states(
        self, memory: Memory, tgt_in: Tensor, layout: Layout | None = None, *, attend: Attend
    ) -> Tensor:
        if layout is None:
            positions, allowed = self.positions(tgt_in.size(1)), None
        else:
            positions, allowed = self.positions.at(layout.tgt_positions), layout.tgt_to_tgt
        x = self._embed(tgt_in, positions)  # [B, T, d_model]
        for layer in self.decoder:
            x = layer(x, memory, allowed=allowed, attend=attend)
        states: Tensor = self.decoder_norm(x)  # [B, T, d_model]
        return states

    @property
    def projection(self) -> Tensor:
        """The matrix that turns states into scores, [V, d_model]: the embedding's own (§3.4)."""
        return self.embedding.projection

    def compile_parts(self) -> None:
        """Have the parts compiled one by one when they are used: each kind of layer once."""
        self._embed = torch.compile(self._embed, dynamic=False)  # type: ignore[method-assign]
        for layer in (*self.encoder, *self.decoder):
            layer.compile(dynamic=False)

    def start(self, memory: Memory, *, hypotheses: int, max_steps: int) -> TransformerState:
        """Compute the keys and values of the source once, for all hypotheses and all steps."""
        self.positions.check(max_steps)
        assert isinstance(memory.allowed, Tensor), "a search reads padded sentences"
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
