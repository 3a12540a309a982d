"""Recurrent models as most would write them in plain torch: peers of `model.kind=rnn`.

`nn.LSTM` or `nn.GRU` over whole sentences, stacked in one call where nothing comes between two
layers, `nn.LSTMCell` or `nn.GRUCell` in a loop where a context does; attention by its formula. The
encoder reads packed sentences or, which lets its backward direction begin in the padding, padded.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from transduce.models.rnn.settings import RNNConfig
from transduce.text.special_ids import PAD_ID

FIRST_RESIDUAL = 2


class PlainEncoder(nn.Module):
    """One call for all layers, or one for each where a residual sum comes between."""

    def __init__(self, shape: RNNConfig, *, packed: bool) -> None:
        super().__init__()
        self.p_drop, self.packed = shape.p_drop, packed
        self.residual = shape.residual
        make = nn.LSTM if shape.cell == "lstm" else nn.GRU
        n, d = shape.n_encoder_layers, shape.d_hidden
        both = [
            shape.bidirectional == "all" or (shape.bidirectional == "first" and not index)
            for index in range(n)
        ]
        is_plain = len(set(both)) == 1 and not (shape.residual and n > FIRST_RESIDUAL)
        self.layers = nn.ModuleList()
        width = shape.d_model
        for is_both in both[:1] if is_plain else both:
            depth = n if is_plain else 1
            self.layers.append(
                make(
                    width,
                    d,
                    num_layers=depth,
                    dropout=shape.p_drop if depth > 1 else 0.0,
                    bidirectional=is_both,
                    batch_first=True,
                )
            )
            width = d * (1 + is_both)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        """Return the states of the last layer."""
        lengths = real.sum(dim=1).cpu() if self.packed else None
        for index, layer in enumerate(self.layers):
            below = F.dropout(x, self.p_drop, self.training) if index else x
            if lengths is None:
                output, _ = layer(below)
            else:
                packed = pack_padded_sequence(
                    below, lengths, batch_first=True, enforce_sorted=False
                )
                output, _ = pad_packed_sequence(
                    layer(packed)[0], batch_first=True, total_length=x.size(1)
                )
            x = output + x if self.residual and index >= FIRST_RESIDUAL else output
        return x


class PlainAttention(nn.Module):
    """The scores of Bahdanau et al. and Luong et al., with all of their inside in memory."""

    def __init__(self, shape: RNNConfig) -> None:
        super().__init__()
        self.score, d = shape.attention, shape.d_hidden
        self.w_1 = nn.Linear(shape.d_source, d, bias=False)
        self.w_2 = nn.Linear(d, d)
        self.v = nn.Linear(d, 1, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        """Project the source once."""
        projected: Tensor = self.w_1(memory)
        return projected if self.score in ("additive", "general") else memory

    def forward(self, query: Tensor, keys: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        """Return the contexts of [B, T, d]."""
        if self.score == "additive":
            scores = self.v(torch.tanh(self.w_2(query)[:, :, None] + keys[:, None])).squeeze(-1)
        else:
            scale = query.size(-1) ** -0.5 if self.score == "scaled_dot" else 1.0
            scores = scale * query @ keys.transpose(1, 2)
        weights = scores.masked_fill(padding[:, None], -math.inf).softmax(dim=-1)
        context: Tensor = weights.to(memory.dtype) @ memory
        return context


class PlainRNN(nn.Module):
    """The same model as ours, with torch's own recurrence."""

    def __init__(self, shape: RNNConfig, *, packed: bool = True) -> None:
        super().__init__()
        self.shape, d = shape, shape.d_hidden
        self.p_drop = shape.p_drop
        self.embedding = nn.Embedding(shape.vocab_size, shape.d_model)
        nn.init.normal_(self.embedding.weight, std=shape.d_model**-0.5)
        self.encoder = PlainEncoder(shape, packed=packed)
        self.attention = PlainAttention(shape)
        self.n_states = 2 if shape.cell == "lstm" else 1
        self.initial = nn.Linear(shape.d_source, shape.n_decoder_layers * self.n_states * d)
        self.readout = nn.Linear(d + shape.d_source + shape.d_model, shape.d_model)
        fed = {"bahdanau": shape.d_source, "input_feeding": shape.d_model}.get(shape.decoder, 0)
        above = d + (shape.d_source if shape.decoder == "gnmt" else 0)
        widths = [shape.d_model + fed, *[above] * (shape.n_decoder_layers - 1)]
        is_lstm = shape.cell == "lstm"
        self.loops = bool(fed)
        self.layers = nn.ModuleList()
        if self.loops:
            cell = nn.LSTMCell if is_lstm else nn.GRUCell
            self.layers.extend(cell(width, d) for width in widths)
            return
        make = nn.LSTM if is_lstm else nn.GRU
        n = len(widths)
        if shape.decoder == "luong" and not (shape.residual and n > FIRST_RESIDUAL):
            dropout = self.p_drop if n > 1 else 0.0
            self.layers.append(make(widths[0], d, n, batch_first=True, dropout=dropout))
        else:
            self.layers.extend(make(width, d, batch_first=True) for width in widths)

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """Return logits."""
        real = src != PAD_ID
        memory = self.encoder(self.embed(src), real)
        keys = self.attention.keys(memory)
        weights = real / real.sum(dim=1, keepdim=True)
        mean = (weights[:, None].to(memory.dtype) @ memory)[:, 0]
        first = torch.tanh(self.initial(mean))
        first = first.view(first.size(0), -1, self.n_states, self.shape.d_hidden)
        decode = self.decode_by_steps if self.loops else self.decode_at_once
        readouts = decode(self.embed(tgt_in), first.to(memory.dtype), keys, memory, ~real)
        logits: Tensor = F.linear(self.drop(readouts), self.embedding.weight)
        return logits

    def decode_at_once(
        self, y: Tensor, first: Tensor, keys: Tensor, memory: Tensor, padding: Tensor
    ) -> Tensor:
        """Read whole targets."""
        x, context = y, None
        per_call = first.size(1) // len(self.layers)
        for index, layer in enumerate(self.layers):
            below = x if index == 0 else self.drop(x)
            if index and self.shape.decoder == "gnmt":
                assert context is not None
                below = self.drop(torch.cat([x, context.to(x.dtype)], dim=-1))
            part = first[:, index * per_call :][:, :per_call].transpose(0, 1)  # its layers first
            given = tuple(part[:, :, state].contiguous() for state in range(self.n_states))
            output, _ = layer(below, given if self.n_states > 1 else given[0])
            x = output + x if self.shape.residual and index >= FIRST_RESIDUAL else output
            if context is None and (self.shape.decoder == "gnmt" or index == len(self.layers) - 1):
                context = self.attention(x, keys, memory, padding)
        assert context is not None
        return self.read(x, context, y)

    def decode_by_steps(
        self, y: Tensor, first: Tensor, keys: Tensor, memory: Tensor, padding: Tensor
    ) -> Tensor:
        """Read targets token by token."""
        states = [tuple(layer.unbind(1)) for layer in first.unbind(1)]
        feeds = self.shape.decoder == "input_feeding"
        fed = y.new_zeros(y.size(0), self.shape.d_model)
        readouts = []
        for token in y.unbind(1):
            context = torch.empty(0)
            if not feeds:
                context = self.attention(states[-1][0][:, None], keys, memory, padding)[:, 0]
                fed = context
            x = torch.cat([token, fed.to(token.dtype)], dim=-1)
            for index, cell in enumerate(self.layers):
                below = self.drop(x) if index else x
                state = cell(below, states[index] if self.n_states > 1 else states[index][0])
                states[index] = state if self.n_states > 1 else (state,)
                output = states[index][0]
                x = output + x if self.shape.residual and index >= FIRST_RESIDUAL else output
            if feeds:
                context = self.attention(x[:, None], keys, memory, padding)[:, 0]
            fed_next = self.read(x, context, token)
            readouts.append(fed_next)
            if feeds:
                fed = fed_next
        return torch.stack(readouts, dim=1)

    def read(self, x: Tensor, context: Tensor, y: Tensor) -> Tensor:
        """Return the readout of states, contexts and tokens."""
        joined = torch.cat([x.to(y.dtype), context.to(y.dtype), y], dim=-1)
        return torch.tanh(self.readout(joined))

    def embed(self, ids: Tensor) -> Tensor:
        """Look tokens up."""
        return self.drop(self.embedding(ids) * math.sqrt(self.shape.d_model))

    def drop(self, x: Tensor) -> Tensor:
        """Apply dropout."""
        return F.dropout(x, self.p_drop, self.training)
