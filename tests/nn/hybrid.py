"""A small model whose decoder mixes layers of different kinds, for tests of search state.

Each layer has a form for whole sequences, `forward`, and one for a step of a search, `step`, over a
state of its own kind. The two forms share weights and nothing else: a recurrence, for instance, is
computed by torch's own GRU in one and by its cell in the other.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transduce.data.packed_layout import PackedLayout
from transduce.models.base import Abilities, Seq2Seq
from transduce.nn.embedding import Embedding
from transduce.nn.initialise import initialise
from transduce.nn.mixers.attention import MultiHeadAttention
from transduce.nn.mixers.positions import RelativeScores, Rotation
from transduce.nn.step_state import (
    BeamHistory,
    HypothesisState,
    KeyValueCache,
    LayerState,
    SentenceState,
    StateGroup,
    StepContext,
)
from transduce.text.special_ids import PAD_ID


class MixerLayer(nn.Module):
    """What lets positions exchange information: [B, T, d_model] to the same shape, causally."""

    def start(self, sentences: int, hypotheses: int, max_steps: int) -> LayerState:
        """Return the state before the first position."""
        raise NotImplementedError

    def step(self, x: Tensor, state: LayerState, at: StepContext) -> Tensor:
        """Do the same for the next position of each hypothesis, [B, k, d_model]."""
        raise NotImplementedError


class AttentionLayer(MixerLayer):
    """Self-attention with learned scores by distance, a window, and rotated queries and keys."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(
            d_model, 2, d_k=4, d_v=4, term=RelativeScores(2, 3), window=5, rotation=Rotation(4, 64)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Attend to all earlier positions at once."""
        output: Tensor = self.attention(x, x, causal=True)
        return output

    def start(self, sentences: int, hypotheses: int, max_steps: int) -> KeyValueCache:
        """Allocate a cache of keys and values."""
        like = self.attention.w_q.weight.new_zeros(sentences, 1)
        return self.attention.empty_cache(like, hypotheses=hypotheses, max_steps=max_steps)

    def step(self, x: Tensor, state: LayerState, at: StepContext) -> Tensor:
        """Attend to the cache."""
        assert isinstance(state, KeyValueCache)
        return self.attention.step(x, state, at)


class RecurrentLayer(MixerLayer):
    """A gated recurrence; keeps its last state."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gru = nn.GRU(d_model, d_model, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Run torch's GRU."""
        output: Tensor = self.gru(x)[0]
        return output

    def start(self, sentences: int, hypotheses: int, max_steps: int) -> HypothesisState:
        """Allocate zeros, as torch's GRU starts."""
        del max_steps
        weight, width = self.gru.all_weights[0][0], self.gru.hidden_size
        return HypothesisState(weight.new_zeros(sentences, hypotheses, width))

    def step(self, x: Tensor, state: LayerState, at: StepContext) -> Tensor:
        """Run its cell once for every hypothesis."""
        del at
        assert isinstance(state, HypothesisState)
        rows, before = x.flatten(0, 1), state.tensor.flatten(0, 1)
        state.update(torch.gru_cell(rows, before, *self.gru.all_weights[0]).view_as(x))
        return state.tensor


class ConvolutionLayer(MixerLayer):
    """A causal convolution; keeps its last inputs, [B, k, width - 1, d_model]."""

    WIDTH = 3

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(d_model, d_model, self.WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve, with zeros before the first position."""
        output: Tensor = self.convolution(F.pad(x.mT, (self.WIDTH - 1, 0))).mT
        return output

    def start(self, sentences: int, hypotheses: int, max_steps: int) -> HypothesisState:
        """Allocate the zeros before the first position."""
        del max_steps
        weight = self.convolution.weight
        shape = (sentences, hypotheses, self.WIDTH - 1, weight.size(1))
        return HypothesisState(weight.new_zeros(shape))

    def step(self, x: Tensor, state: LayerState, at: StepContext) -> Tensor:
        """Weigh the last inputs and this one."""
        del at
        assert isinstance(state, HypothesisState)
        inputs = torch.cat([state.tensor, x[:, :, None]], dim=2)  # [B, k, width, d_model]
        state.update(inputs[:, :, 1:])
        bias: Tensor | None = self.convolution.bias
        assert bias is not None
        return torch.einsum("bkwi,oiw->bko", inputs, self.convolution.weight) + bias


class StateSpaceLayer(MixerLayer):
    """A diagonal linear state space: s_t = a s_(t-1) + W_in x_t, y_t = W_out s_t; keeps s."""

    def __init__(self, d_model: int, d_state: int = 6) -> None:
        super().__init__()
        self.log_rate = nn.Parameter(torch.empty(d_state))
        self.w_in = nn.Linear(d_model, d_state, bias=False)
        self.w_out = nn.Linear(d_state, d_model)

    def init_weights(self) -> None:
        """Draw decays a between 0 and 1."""
        nn.init.normal_(self.log_rate)
        self.w_in.reset_parameters()
        self.w_out.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """Sum over all earlier inputs, each weighted with a^(t - s)."""
        t = torch.arange(x.size(1), device=x.device)
        elapsed = t[:, None] - t  # [T, T]
        log_decay = -self.log_rate.exp()
        powers = (elapsed.clamp(min=0)[..., None] * log_decay).exp() * (elapsed >= 0)[..., None]
        states = torch.einsum("tsn,bsn->btn", powers, self.w_in(x))
        output: Tensor = self.w_out(states)
        return output

    def start(self, sentences: int, hypotheses: int, max_steps: int) -> HypothesisState:
        """Allocate zeros."""
        del max_steps
        return HypothesisState(
            self.log_rate.new_zeros(sentences, hypotheses, self.log_rate.size(0))
        )

    def step(self, x: Tensor, state: LayerState, at: StepContext) -> Tensor:
        """Advance the recurrence by one."""
        del at
        assert isinstance(state, HypothesisState)
        state.update((-self.log_rate.exp()).exp() * state.tensor + self.w_in(x))
        output: Tensor = self.w_out(state.tensor)
        return output


@dataclass(frozen=True)
class HybridState(StateGroup):
    """What the decoder keeps: the layers' states are of different kinds."""

    history: BeamHistory
    source: SentenceState
    layers: tuple[LayerState, ...]


class HybridModel(Seq2Seq):
    """Adds the mean of the source's embeddings to every target position."""

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.embedding = Embedding(vocab_size, d_model)
        kinds = (AttentionLayer, RecurrentLayer, ConvolutionLayer, StateSpaceLayer)
        self.layers = nn.ModuleList(kind(d_model) for kind in kinds)
        self.norm = nn.LayerNorm(d_model)

    @property
    def abilities(self) -> Abilities:
        """Its step may be recorded."""
        return Abilities(recorded_step=True)

    @property
    def projection(self) -> Tensor:
        """The embedding, as in the Transformer."""
        return self.embedding.projection

    def encode(self, src: Tensor, layout: PackedLayout | None = None) -> Tensor:
        """Return the mean over the real tokens, [B, d_model]."""
        del layout
        real = (src != PAD_ID)[..., None]
        total: Tensor = (self.embedding(src) * real).sum(dim=1)
        return total / real.sum(dim=1).clamp(min=1)

    def decode_states(
        self, memory: Tensor, tgt_in: Tensor, layout: PackedLayout | None = None
    ) -> Tensor:
        """Run every layer over the whole sequences."""
        del layout
        x = self.embedding(tgt_in) + memory[:, None]
        for layer in self.layers:
            x = x + layer(x)
        states: Tensor = self.norm(x)
        return states

    def start(self, memory: Tensor, *, hypotheses: int, max_steps: int) -> HybridState:
        """Collect the state of every layer."""
        sentences = memory.size(0)
        return HybridState(
            BeamHistory.empty(sentences, hypotheses, max_steps, memory.device),
            SentenceState(memory),
            tuple(layer.start(sentences, hypotheses, max_steps) for layer in self._mixers()),
        )

    def step(self, last_ids: Tensor, state: HybridState, *, position: Tensor, reach: int) -> Tensor:
        """Run every layer for one position of each hypothesis."""
        state.history.extend(position)
        at = StepContext(position, reach=reach, history=state.history)
        x: Tensor = self.embedding(last_ids) + state.source.tensor[:, None]
        for layer, its_state in zip(self._mixers(), state.layers, strict=True):
            x = x + layer.step(x, its_state, at)
        return F.linear(self.norm(x), self.projection)

    def _mixers(self) -> list[MixerLayer]:
        return [layer for layer in self.layers if isinstance(layer, MixerLayer)]


def hybrid_model(*, vocab_size: int, seed: int, d_model: int = 8) -> HybridModel:
    """Build such a model, without dropout."""
    model = HybridModel(vocab_size, d_model)
    torch.manual_seed(seed)
    initialise(model)
    return model.eval()
