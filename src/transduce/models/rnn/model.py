"""A recurrent encoder and decoder with attention: what the Transformer was compared with."""

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.data.packed_layout import PackedLayout
from transduce.models.base import Abilities, AttentionMaps, Seq2Seq
from transduce.models.rnn.decoder import Attended, EncodedSource, decoder_of
from transduce.models.rnn.encoder import RecurrentEncoder
from transduce.models.rnn.settings import RNNConfig
from transduce.nn.dropout import Dropout
from transduce.nn.embedding import Embedding, SourceEmbedding
from transduce.nn.mixers.masks import padding_allowed
from transduce.nn.step_state import HypothesisState, SentenceState, StateGroup
from transduce.text.special_ids import PAD_ID


@dataclass(frozen=True)
class RNNState(StateGroup):
    """What a search keeps: of each sentence the source, of each hypothesis its last states."""

    states: SentenceState
    keys: SentenceState
    mask: SentenceState
    last: HypothesisState
    fed: HypothesisState | None  # the last readout, where it is an input of the next step

    @property
    def source(self) -> Attended:
        """The source as attention reads it."""
        return Attended(self.states.tensor, self.keys.tensor, self.mask.tensor)


class RNN(Seq2Seq):
    """Bahdanau et al. (2015), Luong et al. (2015) and Wu et al. (2016), by settings."""

    def __init__(self, c: RNNConfig) -> None:
        super().__init__()
        self.embedding = Embedding(c.vocab_size, c.d_model)
        self.src_embedding = (
            SourceEmbedding(c.src_vocab_size, c.d_model) if c.src_vocab_size else None
        )
        self.dropout = Dropout(c.p_drop)
        self.encoder = RecurrentEncoder(c)
        self.decoder = decoder_of(c)
        self.d_fed = c.d_model if c.decoder == "input_feeding" else 0

    @property
    def abilities(self) -> Abilities:
        """What this model can do; it reads padded sentences."""
        return Abilities(recorded_step=True, packed_weights=True, attention_maps=True)

    @property
    def projection(self) -> Tensor:
        """The matrix, [V, d_model], that turns states into scores: the embedding's (§3.4)."""
        return self.embedding.projection

    def encode(self, src: Tensor, layout: PackedLayout | None = None) -> EncodedSource:
        """Encode padded source ids, [B, S]."""
        assert layout is None, "a recurrent model reads padded sentences"
        embedding = self.src_embedding or self.embedding
        x = self.dropout(embedding(src))  # [B, S, d_model]
        states = self.encoder(x, src != PAD_ID)  # [B, S, d_source]
        allowed = padding_allowed(src, PAD_ID)[:, 0]  # [B, 1, S]
        mask = torch.zeros_like(allowed, dtype=states.dtype).masked_fill(~allowed, -torch.inf)
        return EncodedSource(states, mask)

    def decode_states(
        self, memory: EncodedSource, tgt_in: Tensor, layout: PackedLayout | None = None
    ) -> Tensor:
        """Return a state for every prefix of tgt_in, [B, T]."""
        assert layout is None, "a recurrent model reads padded sentences"
        y = self.dropout(self.embedding(tgt_in))  # [B, T, d_model]
        readouts, _ = self.decoder(y, memory)
        states: Tensor = self.dropout(readouts)  # [B, T, d_model]
        return states

    def start(self, memory: EncodedSource, *, hypotheses: int, max_steps: int) -> RNNState:
        """Return the state before the first token."""
        del max_steps  # it does not grow
        source = self.decoder.attended(memory)
        first = self.decoder.first_states(memory)  # [B, n_states, d_hidden]
        fed = None
        if self.d_fed:
            fed = HypothesisState(first.new_zeros(first.size(0), hypotheses, self.d_fed))
        return RNNState(
            SentenceState(source.states),
            SentenceState(source.keys),
            SentenceState(source.mask),
            HypothesisState(first[:, None].repeat(1, hypotheses, 1, 1)),
            fed,
        )

    def step(self, last_ids: Tensor, state: RNNState, *, position: Tensor, reach: int) -> Tensor:
        """Read the last token of each hypothesis, [B, k]; score the next: logits, [B, k, V]."""
        del position, reach
        y = self.embedding(last_ids)  # [B, k, d_model]
        fed = None if state.fed is None else state.fed.tensor
        readout, following = self.decoder.step(y, state.last.tensor, fed, state.source)
        state.last.update(following)
        if state.fed is not None:
            state.fed.update(readout)
        return self.embedding.logits(readout)

    def attention_maps(self, src: Tensor, tgt_in: Tensor) -> AttentionMaps:
        """Return the weights of its one attention, for a source, [B, S], and a target, [B, T]."""
        y = self.embedding(tgt_in)  # [B, T, d_model]
        _, weights = self.decoder(y, self.encode(src), keep_weights=True)
        assert weights is not None
        return AttentionMaps(cross=weights[None, :, None])
