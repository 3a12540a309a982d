"""Figure 1, the Transformer: how the layers of `nn` are put together."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transduce.data.packed_layout import PackedLayout
from transduce.models.base import (
    Abilities,
    AttentionMaps,
    Memory,
    Seq2Seq,
    TrainingStates,
)
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn.add_norm import AddNorm, PostNorm, PreNorm
from transduce.nn.dropout import Dropout
from transduce.nn.embedding import Embedding, SourceEmbedding
from transduce.nn.feed_forward import FeedForward
from transduce.nn.mixers.attention import (
    Attend,
    AttentionRecorder,
    MultiHeadAttention,
    attend_fused,
)
from transduce.nn.mixers.key_ranges import KeyRanges
from transduce.nn.mixers.masks import Allowed, padding_allowed
from transduce.nn.mixers.positions import LearnedPositions, Positions, SinusoidalPositions
from transduce.nn.mixture import MixtureOfExperts, Routing
from transduce.nn.step_state import (
    BeamHistory,
    KeyValueCache,
    SentenceState,
    StateGroup,
    StepContext,
)
from transduce.text.special_ids import PAD_ID

ACTIVATIONS = {"relu": F.relu, "swish": F.silu}


@dataclass(frozen=True)
class Parts:
    """The parts of a layer, as functions that build a new one."""

    encoder_attention: Callable[[], MultiHeadAttention]
    decoder_attention: Callable[[], MultiHeadAttention]
    cross_attention: Callable[[], MultiHeadAttention]
    feed_forward: Callable[[], FeedForward]
    add_norm: Callable[[], AddNorm]
    mixture: Callable[[], MixtureOfExperts] | None = None
    mixture_every: int = 1  # in which layers it replaces the feed-forward network

    def position_wise(self, layer: int) -> FeedForward | MixtureOfExperts:
        """Build what each position goes through by itself in a layer, counted from 0."""
        if self.mixture is not None and (layer + 1) % self.mixture_every == 0:
            return self.mixture()
        return self.feed_forward()


class EncoderLayer(nn.Module):
    """Figure 1, one block on the left."""

    def __init__(self, parts: Parts, number: int = 0) -> None:
        super().__init__()
        self.self_attention = parts.encoder_attention()
        self.feed_forward = parts.position_wise(number)
        self.add_norm_1 = parts.add_norm()
        self.add_norm_2 = parts.add_norm()

    def forward(
        self, x: Tensor, *, allowed: Allowed, attend: Attend, routing: Routing | None = None
    ) -> Tensor:
        """Map [B, S, d_model] to the same shape."""
        x = self.add_norm_1(x, lambda x: self.self_attention(x, x, allowed=allowed, attend=attend))
        x = self.add_norm_2(x, _routed(self.feed_forward, routing))
        return x


class DecoderLayer(nn.Module):
    """Figure 1, one block on the right."""

    def __init__(self, parts: Parts, number: int = 0) -> None:
        super().__init__()
        self.self_attention = parts.decoder_attention()
        self.cross_attention = parts.cross_attention()
        self.feed_forward = parts.position_wise(number)
        self.add_norm_1 = parts.add_norm()
        self.add_norm_2 = parts.add_norm()
        self.add_norm_3 = parts.add_norm()

    def forward(
        self,
        x: Tensor,
        memory: Memory,
        *,
        allowed: KeyRanges | None,
        attend: Attend,
        routing: Routing | None = None,
    ) -> Tensor:
        """Map [B, T, d_model] to the same shape; padding is last, so no token attends to it."""
        x = self.add_norm_1(
            x, lambda x: self.self_attention(x, x, allowed=allowed, causal=True, attend=attend)
        )
        x = self.add_norm_2(
            x,
            lambda x: self.cross_attention(x, memory.states, allowed=memory.allowed, attend=attend),
        )
        x = self.add_norm_3(x, _routed(self.feed_forward, routing))
        return x

    def start(self, memory: Tensor, *, hypotheses: int, max_steps: int) -> "DecoderLayerState":
        """Project the source once, for all hypotheses and all steps, and allocate the cache."""
        keys, values = self.cross_attention.keys_values(memory)
        return DecoderLayerState(
            self.self_attention.empty_cache(keys, hypotheses=hypotheses, max_steps=max_steps),
            SentenceState(keys.contiguous()),  # else every step would copy them for its product
            SentenceState(values.contiguous()),
        )

    def step(
        self, x: Tensor, state: "DecoderLayerState", at: StepContext, *, allowed: Tensor
    ) -> Tensor:
        """Compute one position of each hypothesis, [B, k, d_model]."""

        def attend_to_source(x: Tensor) -> Tensor:  # k hypotheses are k queries to one source
            q = self.cross_attention.queries(x)
            k, v = state.source_keys.tensor, state.source_values.tensor
            return self.cross_attention.attend(q, k, v, allowed=allowed)

        x = self.add_norm_1(x, lambda x: self.self_attention.step(x, state.past, at))
        x = self.add_norm_2(x, attend_to_source)
        x = self.add_norm_3(x, self.feed_forward)
        return x


def _routed(
    feed_forward: FeedForward | MixtureOfExperts, routing: Routing | None
) -> Callable[[Tensor], Tensor]:
    if isinstance(feed_forward, MixtureOfExperts):
        return lambda x: feed_forward(x, routing)
    return feed_forward


@dataclass(frozen=True)
class DecoderLayerState(StateGroup):
    """The state of one decoder layer: its own cache, and the source projected once per sentence."""

    past: KeyValueCache
    source_keys: SentenceState
    source_values: SentenceState


@dataclass(frozen=True)
class TransformerState(StateGroup):
    """The state of the decoder between two steps of a search."""

    history: BeamHistory
    source_allowed: SentenceState
    layers: tuple[DecoderLayerState, ...]


class Transformer(Seq2Seq):
    """Figure 1, whole."""

    def __init__(
        self,
        embedding: Embedding,
        positions: Positions,
        parts: Parts,
        *,
        n_encoder_layers: int,
        n_decoder_layers: int,
        last_norm: Callable[[], nn.Module],
        p_drop: float,
        pad_id: int,
        balance_weight: float = 0.0,
        src_embedding: SourceEmbedding | None = None,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.src_embedding = src_embedding  # None: source and target share one
        self.positions = positions
        self.dropout = Dropout(p_drop)
        self.encoder = _stack(EncoderLayer(parts, n) for n in range(n_encoder_layers))
        self.encoder_norm = last_norm()
        self.decoder = _stack(DecoderLayer(parts, n) for n in range(n_decoder_layers))
        self.decoder_norm = last_norm()
        self.pad_id = pad_id
        self.has_experts = parts.mixture is not None
        self.balance_weight = balance_weight

    @property
    def abilities(self) -> Abilities:
        """What this Transformer can do.

        Packed sequences exclude dropout on attention weights and additive scores: no kernel for
        long rows has them.
        """
        attentions = [m for m in self.modules() if isinstance(m, MultiHeadAttention)]
        is_papers = not self.has_experts and all(
            attention.score == "scaled" and not attention.knows_distances
            for attention in attentions
        )
        return Abilities(
            packed_sequences=all(
                attention.p_drop == 0 and attention.score != "additive" for attention in attentions
            ),
            recorded_step=True,
            packed_weights=True,
            attention_maps=True,
            exports=frozenset({"ctranslate2", "huggingface"} if is_papers else ()),
        )

    def training_states(
        self, src: Tensor, tgt_in: Tensor, layout: PackedLayout | None = None
    ) -> TrainingStates:
        """Run encoder and decoder for a training step; experts add what balances them."""
        if not self.has_experts:
            return super().training_states(src, tgt_in, layout)
        balances: list[Tensor] = []
        memory = self.encode(src, layout, balances=balances)
        states = self._last_states(memory, tgt_in, layout, balances=balances)  # [B, T, d_model]
        auxiliary = self.balance_weight * torch.stack(balances).sum() if balances else None
        return TrainingStates(self.embedding.with_bias(states), auxiliary)

    def encode(
        self,
        src: Tensor,
        layout: PackedLayout | None = None,
        *,
        attend: Attend = attend_fused,
        balances: list[Tensor] | None = None,
    ) -> Memory:
        """Encode padded source ids, [B, S]; with a layout, a row of packed sentences, [1, S]."""
        from_source: Allowed
        from_target: Tensor | KeyRanges
        if layout is None:
            positions = self.positions(src.size(1))  # [S, d_model]
            mask = padding_allowed(src, self.pad_id)  # [B, 1, 1, S]
            from_source, from_target = mask, mask
        else:
            positions = self.positions.at(layout.src_positions)  # [S, d_model]
            from_source, from_target = layout.src_to_src, layout.tgt_to_src
        x = self._embed_source(src, positions)  # [B, S, d_model]
        for layer in self.encoder:
            routing = self._routing(src)
            x = layer(x, allowed=from_source, attend=attend, routing=routing)
            _collect(routing, balances)
        return Memory(states=self.encoder_norm(x), allowed=from_target)

    def decode(self, memory: Memory, tgt_in: Tensor, *, attend: Attend = attend_fused) -> Tensor:
        """Score every next token after every prefix of tgt_in, [B, T]: logits, [B, T, V]."""
        states = self._last_states(memory, tgt_in, attend=attend)  # [B, T, d_model]
        return self.embedding.logits(states)  # [B, T, V]

    def decode_states(
        self, memory: Memory, tgt_in: Tensor, layout: PackedLayout | None = None
    ) -> Tensor:
        """Return a state for every prefix of tgt_in; with an output bias, each ends with a 1."""
        states = self._last_states(memory, tgt_in, layout)  # [B, T, d_model]
        return self.embedding.with_bias(states)

    def _last_states(
        self,
        memory: Memory,
        tgt_in: Tensor,
        layout: PackedLayout | None = None,
        *,
        attend: Attend = attend_fused,
        balances: list[Tensor] | None = None,
    ) -> Tensor:
        if layout is None:
            positions, allowed = self.positions(tgt_in.size(1)), None
        else:
            positions, allowed = self.positions.at(layout.tgt_positions), layout.tgt_to_tgt
        x = self._embed(tgt_in, positions)  # [B, T, d_model]
        for layer in self.decoder:
            routing = self._routing(tgt_in)
            x = layer(x, memory, allowed=allowed, attend=attend, routing=routing)
            _collect(routing, balances)
        states: Tensor = self.decoder_norm(x)  # [B, T, d_model]
        return states

    @property
    def projection(self) -> Tensor:
        """The matrix, [V, d_model], that turns states into scores: the embedding's (§3.4)."""
        return self.embedding.projection

    def compile_layers(self) -> None:
        """Have torch compile each layer when it is first used."""
        self._embed = torch.compile(self._embed, dynamic=False)  # type: ignore[method-assign]
        if self.src_embedding is not None:
            compiled = torch.compile(self._embed_source, dynamic=False)
            self._embed_source = compiled  # type: ignore[method-assign]
        for layer in (*self.encoder, *self.decoder):
            layer.compile(dynamic=False)

    def start(self, memory: Memory, *, hypotheses: int, max_steps: int) -> TransformerState:
        """Return the state before the first token."""
        self.positions.check(max_steps)
        assert isinstance(memory.allowed, Tensor), "a search reads padded sentences"
        sentences, device = memory.states.size(0), memory.states.device
        return TransformerState(
            BeamHistory.empty(sentences, hypotheses, max_steps, device),
            SentenceState(memory.allowed),
            tuple(
                layer.start(memory.states, hypotheses=hypotheses, max_steps=max_steps)
                for layer in self.decoder
            ),
        )

    def step(
        self, last_ids: Tensor, state: TransformerState, *, position: Tensor, reach: int
    ) -> Tensor:
        """Read the last token of each hypothesis, [B, k]; score the next: logits, [B, k, V]."""
        state.history.extend(position)
        at = StepContext(position, reach=reach, history=state.history)
        x = self._embed(last_ids, self.positions.at(position))  # [B, k, d_model]
        for layer, layer_state in zip(self.decoder, state.layers, strict=True):
            x = layer.step(x, layer_state, at, allowed=state.source_allowed.tensor)
        return self.embedding.logits(self.decoder_norm(x))

    def attention_maps(self, src: Tensor, tgt_in: Tensor) -> AttentionMaps:
        """Return all attention weights for a source, [B, S], and a target shifted right, [B, T]."""
        of_encoder, of_decoder = AttentionRecorder(), AttentionRecorder()
        memory = self.encode(src, attend=of_encoder)
        self.decode(memory, tgt_in, attend=of_decoder)
        # A decoder layer attends twice: to itself, then to the memory.
        return AttentionMaps(
            encoder=torch.stack(of_encoder.weights),
            decoder=torch.stack(of_decoder.weights[0::2]),
            cross=torch.stack(of_decoder.weights[1::2]),
        )

    def _embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(self.embedding(ids) + positions)
        return embedded

    def _embed_source(self, ids: Tensor, positions: Tensor) -> Tensor:
        if self.src_embedding is None:
            return self._embed(ids, positions)
        embedded: Tensor = self.dropout(self.src_embedding(ids) + positions)
        return embedded

    def _routing(self, ids: Tensor) -> Routing | None:
        """Tell the experts of a layer which tokens are real; one for each call, so none is kept."""
        return Routing(ids != self.pad_id) if self.has_experts else None


def _collect(routing: Routing | None, balances: list[Tensor] | None) -> None:
    if balances is not None and routing is not None and routing.balance is not None:
        balances.append(routing.balance)


Layer = TypeVar("Layer", EncoderLayer, DecoderLayer)


def _stack(layers: Iterable[Layer]) -> Sequence[Layer]:
    return cast("Sequence[Layer]", nn.ModuleList(layers))  # mypy sees a ModuleList of Modules


def assemble(c: TransformerConfig) -> Transformer:
    """Build a Transformer with these settings; its weights are not initialised yet."""
    add_norm = PreNorm if c.norm == "pre" else PostNorm
    positions = LearnedPositions if c.positions == "learned" else SinusoidalPositions

    def self_attention() -> MultiHeadAttention:
        return MultiHeadAttention(
            c.d_model,
            c.h,
            d_k=c.d_k,
            d_v=c.d_v,
            bias=c.attention_bias,
            p_drop=c.p_drop_attention,
            score=c.attention_score,
        )

    cross_attention = self_attention  # the paper's are alike; positions are for self-attention

    def last_norm() -> nn.Module:
        # A post-norm layer ends with a norm; a pre-norm layer ends with a residual sum.
        is_post = c.norm == "post"
        return nn.Identity() if is_post else nn.LayerNorm(c.d_model, eps=c.norm_epsilon)

    return Transformer(
        Embedding(c.vocab_size, c.d_model, bias=c.output_bias),
        positions(c.max_positions, c.d_model),
        Parts(
            encoder_attention=self_attention,
            decoder_attention=self_attention,
            cross_attention=cross_attention,
            feed_forward=lambda: FeedForward(
                c.d_model, c.d_ff, activation=ACTIVATIONS[c.activation], p_drop=c.p_drop_ff
            ),
            add_norm=lambda: add_norm(c.d_model, epsilon=c.norm_epsilon, p_drop=c.p_drop),
            mixture=partial(_mixture, c) if c.experts else None,
            mixture_every=c.experts_every,
        ),
        n_encoder_layers=c.n_encoder_layers,
        n_decoder_layers=c.n_decoder_layers,
        last_norm=last_norm,
        p_drop=c.p_drop,
        pad_id=PAD_ID,
        balance_weight=c.balance_weight,
        src_embedding=SourceEmbedding(c.src_vocab_size, c.d_model) if c.src_vocab_size else None,
    )


def _mixture(c: TransformerConfig) -> MixtureOfExperts:
    return MixtureOfExperts(
        c.d_model,
        c.d_ff,
        experts=c.experts,
        per_token=c.experts_per_token,
        capacity=c.expert_capacity,
        activation=ACTIVATIONS[c.activation],
        p_drop=c.p_drop_ff,
    )
