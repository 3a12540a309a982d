"""The layers of Figure 1: an encoder block, a decoder block, and the state of the latter."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from transduce.models.base import (
    Memory,
)
from transduce.nn.add_norm import AddNorm
from transduce.nn.feed_forward import (
    FeedForward,
    GatedFeedForward,
)
from transduce.nn.guided_attention import AlignmentGuide, alignment_loss
from transduce.nn.mixers.attention import (
    Attend,
    MultiHeadAttention,
)
from transduce.nn.mixers.key_ranges import KeyRanges
from transduce.nn.mixers.low_rank import LowRankAttention
from transduce.nn.mixers.masks import Allowed
from transduce.nn.mixers.random_features import FeatureSums, RandomFeatureAttention
from transduce.nn.mixers.state_spaces.mamba import Mamba, MambaState
from transduce.nn.mixers.state_spaces.s4 import S4
from transduce.nn.mixture import MixtureOfExperts, Routing
from transduce.nn.step_state import (
    HypothesisState,
    KeyValueCache,
    SentenceState,
    StateGroup,
    StepContext,
)

SelfAttention = MultiHeadAttention | RandomFeatureAttention
StateSpace = S4 | Mamba
Mixer = SelfAttention | StateSpace
"""What lets positions exchange information in a layer: self-attention (§3.2.3), or another."""


@dataclass(frozen=True)
class Parts:
    """The parts of a layer, as functions that build a new one; mixers by the layer's number."""

    encoder_mixer: Callable[[int], Mixer]
    decoder_mixer: Callable[[int], Mixer]
    cross_attention: Callable[[], MultiHeadAttention]
    feed_forward: Callable[[], FeedForward | GatedFeedForward]
    add_norm: Callable[[], AddNorm]
    mixture: Callable[[], MixtureOfExperts] | None = None
    mixture_every: int = 1  # in which layers it replaces the feed-forward network

    def position_wise(self, layer: int) -> FeedForward | GatedFeedForward | MixtureOfExperts:
        """Build what each position goes through by itself in a layer, counted from 0."""
        if self.mixture is not None and (layer + 1) % self.mixture_every == 0:
            return self.mixture()
        return self.feed_forward()


class MixingLayer(nn.Module):
    """The base of both layers: self-attention, or a state space in its place."""

    self_attention: SelfAttention  # missing where there is a state space
    state_space: StateSpace | None

    def __init__(self, mixer: Mixer) -> None:
        super().__init__()
        if isinstance(mixer, S4 | Mamba):
            self.state_space = mixer
        else:
            self.self_attention, self.state_space = mixer, None

    @property
    def mixer(self) -> Mixer:
        """Whichever of both there is."""
        return self.self_attention if self.state_space is None else self.state_space

    @property
    def shows_self_attention(self) -> bool:
        """Whether the mixer has weights between all pairs of positions."""
        mixer = self.mixer
        return isinstance(mixer, MultiHeadAttention) and not isinstance(mixer, LowRankAttention)

    def mix(self, x: Tensor, *, allowed: Allowed, causal: bool, attend: Attend) -> Tensor:
        """Let the positions of x exchange information; a state space is built causal or not."""
        if self.state_space is not None:
            mixed: Tensor = self.state_space(x, allowed)
        else:
            mixed = self.self_attention(x, x, allowed=allowed, causal=causal, attend=attend)
        return mixed


class EncoderLayer(MixingLayer):
    """Figure 1, one block on the left."""

    def __init__(self, parts: Parts, number: int = 0) -> None:
        super().__init__(parts.encoder_mixer(number))
        self.feed_forward = parts.position_wise(number)
        self.add_norm_1 = parts.add_norm()
        self.add_norm_2 = parts.add_norm()

    def forward(
        self, x: Tensor, *, allowed: Allowed, attend: Attend, routing: Routing | None = None
    ) -> Tensor:
        """Map [B, S, d_model] to the same shape."""
        x = self.add_norm_1(x, lambda x: self.mix(x, allowed=allowed, causal=False, attend=attend))
        x = self.add_norm_2(x, _routed(self.feed_forward, routing))
        return x


class DecoderLayer(MixingLayer):
    """Figure 1, one block on the right."""

    def __init__(self, parts: Parts, number: int = 0) -> None:
        super().__init__(parts.decoder_mixer(number))
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
        guide: AlignmentGuide | None = None,
    ) -> Tensor:
        """Map [B, T, d_model] to the same shape; padding is last, so no token attends to it."""
        states, seen = memory.states, memory.allowed

        def attend_to_source(x: Tensor) -> Tensor:
            if guide is not None:
                attention, links = self.cross_attention, guide.links
                guide.loss = alignment_loss(attention, x, states, allowed=seen, links=links)
            context: Tensor = self.cross_attention(x, states, allowed=seen, attend=attend)
            return context

        x = self.add_norm_1(x, lambda x: self.mix(x, allowed=allowed, causal=True, attend=attend))
        x = self.add_norm_2(x, attend_to_source)
        x = self.add_norm_3(x, _routed(self.feed_forward, routing))
        return x

    def start(self, memory: Memory, *, hypotheses: int, max_steps: int) -> "DecoderLayerState":
        """Project the source once, for all hypotheses and all steps, and allocate the cache."""
        keys, values = self.cross_attention.source(memory.states, memory.allowed)
        return DecoderLayerState(
            self.mixer.empty_cache(keys, hypotheses=hypotheses, max_steps=max_steps),
            SentenceState(keys.contiguous()),  # else every step would copy them for its product
            SentenceState(values.contiguous()),
        )

    def step(
        self, x: Tensor, state: "DecoderLayerState", at: StepContext, *, allowed: Tensor
    ) -> Tensor:
        """Compute one position of each hypothesis, [B, k, d_model], or a span of one hypothesis."""

        def attend_to_source(x: Tensor) -> Tensor:  # k hypotheses are k queries to one source
            q = self.cross_attention.queries(x)
            k, v = state.source_keys.tensor, state.source_values.tensor
            return self.cross_attention.attend(q, k, v, allowed=allowed)

        x = self.add_norm_1(x, lambda x: self._mix_step(x, state.past, at))
        x = self.add_norm_2(x, attend_to_source)
        x = self.add_norm_3(x, self.feed_forward)
        return x

    def _mix_step(self, x: Tensor, past: "Past", at: StepContext) -> Tensor:
        match self.mixer, past:
            case MultiHeadAttention() as attention, KeyValueCache() as cache:
                return attention.step(x, cache, at)
            case RandomFeatureAttention() as performer, FeatureSums() as sums:
                return performer.step(x, sums, at)
            case S4() as s4, HypothesisState() as state:
                return s4.step(x, state, at)
            case Mamba() as mamba, MambaState() as both:
                return mamba.step(x, both, at)
        raise AssertionError(f"{type(past)} is not of {type(self.mixer)}")


def _routed(
    feed_forward: FeedForward | GatedFeedForward | MixtureOfExperts, routing: Routing | None
) -> Callable[[Tensor], Tensor]:
    if isinstance(feed_forward, MixtureOfExperts):
        return lambda x: feed_forward(x, routing)
    return feed_forward


Past = KeyValueCache | FeatureSums | HypothesisState | MambaState
"""What a mixer keeps of earlier positions."""


@dataclass(frozen=True)
class DecoderLayerState(StateGroup):
    """The state of one decoder layer: its own cache, and the source projected once per sentence."""

    past: Past
    source_keys: SentenceState
    source_values: SentenceState
