"""Figure 1, the Transformer: how the layers are put together."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from transduce.data.packed_layout import PackedLayout
from transduce.models.base import (
    Abilities,
    AttentionMaps,
    Memory,
    Seq2Seq,
    TrainingStates,
)
from transduce.models.transformer.layers import DecoderLayer, DecoderLayerState, EncoderLayer, Parts
from transduce.nn.dropout import Dropout
from transduce.nn.embedding import Embedding, SourceEmbedding
from transduce.nn.feed_forward import (
    ACTIVATIONS,
    GatedFeedForward,
)
from transduce.nn.guided_attention import AlignmentGuide
from transduce.nn.mixers.attention import (
    Attend,
    AttentionRecorder,
    MultiHeadAttention,
    attend_fused,
)
from transduce.nn.mixers.global_attention import GlobalAttention
from transduce.nn.mixers.key_ranges import KeyRanges
from transduce.nn.mixers.low_rank import LowRankAttention
from transduce.nn.mixers.masks import Allowed, padding_allowed
from transduce.nn.mixers.positions import (
    NoPositions,
    Positions,
)
from transduce.nn.mixers.random_features import RandomFeatureAttention
from transduce.nn.mixers.state_spaces.mamba import Mamba
from transduce.nn.mixers.state_spaces.s4 import S4
from transduce.nn.mixture import MixtureOfExperts, Routing
from transduce.nn.step_state import (
    BeamHistory,
    SentenceState,
    SpanContext,
    StateGroup,
    StepContext,
)


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
        guided_alignment: float = 0.0,
        alignment_layer: int = 0,
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
        self.guided_alignment = guided_alignment
        self.alignment_layer = alignment_layer  # from 0

    @property
    def abilities(self) -> Abilities:
        """What this Transformer can do.

        Packed sequences exclude dropout on attention weights and additive scores: no kernel for
        long rows has them. They exclude all mixers but attention, with or without a window: the
        others would carry sums or states from one sentence into the next.
        """
        attentions = [m for m in self.modules() if isinstance(m, MultiHeadAttention)]
        unpacked = (GlobalAttention, LowRankAttention, RandomFeatureAttention, S4, Mamba)
        return Abilities(
            packed_sequences=all(
                attention.p_drop == 0 and attention.score != "additive" for attention in attentions
            )
            and not any(isinstance(module, unpacked) for module in self.modules()),
            recorded_step=True,
            packed_weights=True,
            step_states=True,
            multi_token_step=all(
                isinstance(layer.mixer, MultiHeadAttention) for layer in self.decoder
            ),
            attention_maps=not any(
                isinstance(layer.cross_attention, LowRankAttention) for layer in self.decoder
            ),
            alignment_head=(self.alignment_layer, 0) if self.guided_alignment > 0 else None,
            exports=self._exports(attentions),
        )

    def _exports(self, attentions: Sequence[MultiHeadAttention]) -> frozenset[str]:
        """Return the formats whose engines compute what these modules do."""
        parts = [*self.modules()]
        foreign = (MixtureOfExperts, LowRankAttention, RandomFeatureAttention, S4, Mamba)
        is_foreign = any(
            isinstance(part, foreign) or getattr(part, "activation", None) is ACTIVATIONS["relu2"]
            for part in parts
        ) or any(
            one.score != "scaled" or one.norm_q or one.term or one.window is not None
            for one in attentions
        )
        if is_foreign:
            return frozenset()
        is_papers = self.embedding.output_weight is None and not any(
            isinstance(part, nn.RMSNorm | GatedFeedForward | NoPositions) for part in parts
        )
        return frozenset({"ctranslate2", "huggingface"} if is_papers else {"ctranslate2"})

    def training_states(
        self,
        src: Tensor,
        tgt_in: Tensor,
        layout: PackedLayout | None = None,
        links: Tensor | None = None,
    ) -> TrainingStates:
        """Run encoder and decoder for a training step.

        Experts add what balances them, links what guides the alignment head.
        """
        if not self.has_experts and links is None:
            return super().training_states(src, tgt_in, layout)
        balances: list[Tensor] = []
        guide = None if links is None else AlignmentGuide(links)
        memory = self.encode(src, layout, balances=balances)
        states = self._last_states(
            memory, tgt_in, layout, balances=balances, guide=guide
        )  # [B, T, d_model]
        losses = [self.balance_weight * torch.stack(balances).sum()] if balances else []
        if guide is not None:
            assert guide.loss is not None, "a decoder layer is guided"
            real = (tgt_in != self.pad_id).sum().clamp_min(1)
            losses.append(self.guided_alignment * guide.loss / real)
        auxiliary = torch.stack(losses).sum() if losses else None
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
        guide: AlignmentGuide | None = None,
    ) -> Tensor:
        if layout is None:
            positions, allowed = self.positions(tgt_in.size(1)), None
        else:
            positions, allowed = self.positions.at(layout.tgt_positions), layout.tgt_to_tgt
        x = self._embed(tgt_in, positions)  # [B, T, d_model]
        for number, layer in enumerate(self.decoder):
            routing = self._routing(tgt_in)
            guided = guide if number == self.alignment_layer else None
            x = layer(x, memory, allowed=allowed, attend=attend, routing=routing, guide=guided)
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
                layer.start(memory, hypotheses=hypotheses, max_steps=max_steps)
                for layer in self.decoder
            ),
        )

    def step(
        self, last_ids: Tensor, state: TransformerState, *, position: Tensor, reach: int
    ) -> Tensor:
        """Read the last token of each hypothesis, [B, k]; score the next: logits, [B, k, V]."""
        x = self._step(last_ids, state, position=position, reach=reach)  # [B, k, d_model]
        return self.embedding.logits(x)

    def step_states(
        self, last_ids: Tensor, state: TransformerState, *, position: Tensor, reach: int
    ) -> Tensor:
        """Do `step` without the product: states, [B, k, d_model]; each ends with a 1 for a bias."""
        x = self._step(last_ids, state, position=position, reach=reach)
        return self.embedding.with_bias(x)

    def _step(
        self, last_ids: Tensor, state: TransformerState, *, position: Tensor, reach: int
    ) -> Tensor:
        state.history.extend(position)
        at = StepContext(position, reach=reach, history=state.history)
        x = self._embed(last_ids, self.positions.at(position))  # [B, k, d_model]
        return self._step_layers(x, state, at)

    def multi_token_step(
        self, ids: Tensor, state: TransformerState, *, position: Tensor, reach: int
    ) -> Tensor:
        """Read T more tokens of each sentence, [B, T]; score the next after each: [B, T, V].

        Keys and values are written by position: those that do not count any more are overwritten.
        """
        positions = position + torch.arange(ids.size(1), device=ids.device)
        at = SpanContext(positions, reach=reach, history=state.history)
        x = self._embed(ids, self.positions.at(positions))
        return self.embedding.logits(self._step_layers(x, state, at))

    def _step_layers(self, x: Tensor, state: TransformerState, at: StepContext) -> Tensor:
        for layer, layer_state in zip(self.decoder, state.layers, strict=True):
            x = layer.step(x, layer_state, at, allowed=state.source_allowed.tensor)
        states: Tensor = self.decoder_norm(x)
        return states

    def attention_maps(self, src: Tensor, tgt_in: Tensor) -> AttentionMaps:
        """Return all attention weights for a source, [B, S], and a target shifted right, [B, T].

        A stack with a layer that has no such weights shows none of its own.
        """
        if not self.abilities.attention_maps:
            return super().attention_maps(src, tgt_in)
        of_encoder, of_decoder = AttentionRecorder(), AttentionRecorder()
        memory = self.encode(src, attend=of_encoder)
        self.decode(memory, tgt_in, attend=of_decoder)
        own, cross, recorded = [], [], iter(of_decoder.weights)
        for layer in self.decoder:  # each attends to itself, if it does, and then to the memory
            own += [next(recorded)] if layer.shows_self_attention else []
            cross.append(next(recorded))
        return AttentionMaps(
            encoder=_stacked(of_encoder.weights, len(self.encoder)),
            decoder=_stacked(own, len(self.decoder)),
            cross=torch.stack(cross),
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


def _stacked(weights: list[Tensor], layers: int) -> Tensor | None:
    return torch.stack(weights) if len(weights) == layers else None


def _collect(routing: Routing | None, balances: list[Tensor] | None) -> None:
    if balances is not None and routing is not None and routing.balance is not None:
        balances.append(routing.balance)


Layer = TypeVar("Layer", EncoderLayer, DecoderLayer)


def _stack(layers: Iterable[Layer]) -> Sequence[Layer]:
    return cast("Sequence[Layer]", nn.ModuleList(layers))  # mypy sees a ModuleList of Modules
