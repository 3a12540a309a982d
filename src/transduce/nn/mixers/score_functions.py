"""Attention of recurrent decoders: one head whose score function is additive, or a dot product.

Additive scores are those of Bahdanau et al. (2015), v · tanh(W_1 h + W_2 s), for a source state h
and a decoder state s; the dot and general forms, h · s and h · W s, of Luong et al. (2015, §3.1).
"""

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from transduce.nn.initialise import keep_variance_

ScoreName = Literal["additive", "dot", "scaled_dot", "general"]

CHUNK_ELEMENTS = {"cpu": 2**20, "cuda": 2**28}
"""Elements of tanh(W_1 h + W_2 s) held at a time: on a CPU, as many as its cache has room for."""

KEPT_ELEMENTS = 2**27
"""Up to this many are kept for the backward pass; more are computed again."""


class SourceAttention(nn.Module):
    """Lets states of a decoder attend to the states of a source.

    Keys are projected once for a source; a query is a decoder's state.
    """

    def __init__(self, d_source: int, d_query: int, *, score: ScoreName) -> None:
        super().__init__()
        self.score = score
        self.scale = d_query**-0.5 if score == "scaled_dot" else 1.0
        if score == "additive":
            self.w_1 = nn.Linear(d_source, d_query, bias=False)
            self.w_2 = nn.Linear(d_query, d_query)
            self.v = nn.Parameter(torch.empty(d_query))
        elif score == "general":
            self.w_1 = nn.Linear(d_source, d_query, bias=False)
        else:
            assert d_source == d_query, f"a dot product of {d_source} and {d_query} numbers"

    def init_weights(self) -> None:
        """Draw so that scores have a variance near 1, except those of dot products."""
        if self.score in ("additive", "general"):
            keep_variance_(self.w_1)
        if self.score == "general":
            self.w_1.weight.mul_(self.w_1.out_features**-0.5)
        if self.score == "additive":
            keep_variance_(self.w_2)
            bound = math.sqrt(3 / self.v.size(0))
            nn.init.uniform_(self.v, -bound, bound)

    def keys(
        self,
        memory: Tensor,  # [B, S, d_source]
    ) -> Tensor:
        """Project the states of a source, once for all queries."""
        if self.score in ("additive", "general"):
            keys: Tensor = self.w_1(memory)  # [B, S, d_query]
            return keys
        return memory

    def forward(
        self,
        queries: Tensor,  # [B, T, d_query]
        keys: Tensor,  # [B, S, d_query]
        memory: Tensor,  # [B, S, d_source]
        mask: Tensor,  # [B, 1, S]
    ) -> tuple[Tensor, Tensor]:
        """Return the context of each query and its weights; the mask is 0, or −∞ at padding."""
        if self.score == "additive":
            scores = additive_scores(self.w_2(queries), keys, self.v[:, None])  # [B, T, S]
        else:
            scores = self.scale * queries @ keys.transpose(1, 2)  # [B, T, S]
        weights = (scores + mask).softmax(dim=-1)  # [B, T, S]
        return weights.to(memory.dtype) @ memory, weights


def additive_scores(
    queries: Tensor,  # [B, T, d_query]
    keys: Tensor,  # [B, S, d_query]
    v: Tensor,  # [d_query, 1]
) -> Tensor:
    """Return v · tanh(q_t + k_s) for all pairs, without a graph of its [B, T, S, d_query] inside.

    The inside is computed for a chunk of queries at a time. It is kept for the backward pass where
    it is small, and computed again where it is not.
    """
    v = v.to(queries.dtype)
    if torch.is_grad_enabled() and (queries.requires_grad or keys.requires_grad):
        scores: Tensor = _AdditiveScores.apply(queries, keys, v)  # type: ignore[no-untyped-call]
        return scores
    rows = _rows(queries, keys)
    parts = [_inside(part, keys) @ v for part in torch.split(queries, rows, dim=1)]
    return torch.cat(parts, dim=1)[..., 0]  # [B, T, S]


def _inside(queries: Tensor, keys: Tensor) -> Tensor:
    return (queries[:, :, None] + keys[:, None]).tanh_()  # [B, T, S, d_query]


def _rows(queries: Tensor, keys: Tensor) -> int:
    """Return how many queries of each sentence make a chunk."""
    chunk = CHUNK_ELEMENTS.get(queries.device.type, CHUNK_ELEMENTS["cuda"])
    return max(1, chunk // max(1, keys.numel()))


class _AdditiveScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        rows = _rows(queries, keys)
        is_kept = queries.size(1) * keys.numel() <= KEPT_ELEMENTS
        kept, scores = [], []
        for part in torch.split(queries, rows, dim=1):
            inside = _inside(part, keys)
            scores.append(inside @ v)
            if is_kept:
                kept.append(inside)
        ctx.rows = rows
        ctx.save_for_backward(queries, keys, v, *kept)
        return torch.cat(scores, dim=1)[..., 0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, v, *kept = ctx.saved_tensors
        d_queries = []
        exact = torch.promote_types(keys.dtype, torch.float32)
        d_keys, d_v = (torch.zeros_like(x, dtype=exact) for x in (keys, v))
        for place, d_part in enumerate(torch.split(d_scores, ctx.rows, dim=1)):
            part = queries[:, place * ctx.rows :][:, : ctx.rows]
            inside = kept[place] if kept else _inside(part, keys)
            d_v += inside.flatten(0, 2).t() @ d_part.reshape(-1, 1)
            # The derivative of tanh is 1 − tanh²; the factor v is left to the end.
            squares = inside.square().mul_(d_part[..., None])
            of_queries = d_part.sum(dim=2, dtype=exact)[..., None]
            d_queries.append(of_queries - squares.sum(dim=2, dtype=exact))
            d_keys += d_part.sum(dim=1, dtype=exact)[..., None] - squares.sum(dim=1, dtype=exact)
        d_q, d_k = torch.cat(d_queries, dim=1) * v[:, 0], d_keys * v[:, 0]
        return d_q.to(queries.dtype), d_k.to(keys.dtype), d_v.to(v.dtype)
