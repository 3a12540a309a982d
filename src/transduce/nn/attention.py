"""Attention (§3.2): eq. 1, as it is written and as a fused kernel, and the multi-head form."""

import math
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transduce.nn.device import fits_kernels, kernels_work, runs_kernels, searches_on_cpu
from transduce.nn.linear import linear_joined, linear_together
from transduce.nn.masks import causal_allowed
from transduce.nn.spans import Spans

Allowed = Tensor | Spans | None
"""What may be looked at: a mask that broadcasts to [B, h, T, S], or runs of keys."""


class Attend(Protocol):
    """Eq. 1, however computed: softmax(q k^T / sqrt(d_k)) v.

    `allowed` is True where a query may look and broadcasts to [B, h, T, S]; None allows all. Every
    query must be able to look somewhere. `causal` lets position i look at positions ≤ i: instead of
    a mask, or within runs.
    """

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        allowed: Allowed = None,
        causal: bool = False,
        p_drop: float = 0.0,
    ) -> Tensor:
        """Return the context, one row of v-like numbers for each query."""
        ...


def attend_fused(
    q: Tensor,  # [B, h, T, d_k]
    k: Tensor,  # [B, h, S, d_k]
    v: Tensor,  # [B, h, S, d_v]
    *,
    allowed: Allowed = None,
    causal: bool = False,
    p_drop: float = 0.0,
) -> Tensor:
    """Eq. 1 in one kernel, which never writes the weights to memory."""
    if isinstance(allowed, Spans):
        allowed, causal = _as_mask(q, allowed, causal=causal), False
    is_plain = not causal and p_drop == 0
    fits = fits_kernels(q.size(-2), q.size(-1), v.size(-1), q.dtype)
    if is_plain and fits and runs_kernels(q):
        from transduce.nn.kernels import attend_few

        return attend_few(q, k, v, allowed)
    if is_plain and fits and searches_on_cpu(q):
        # For the few queries of a search the fused kernel takes up to three times as long.
        return attend_as_written(q, k, v, allowed=allowed)[0]
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=allowed, dropout_p=p_drop, is_causal=causal
    )  # [B, h, T, d_v]


def attend_as_written(
    q: Tensor,  # [B, h, T, d_k]
    k: Tensor,  # [B, h, S, d_k]
    v: Tensor,  # [B, h, S, d_v]
    *,
    allowed: Allowed = None,
    causal: bool = False,
    p_drop: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Eq. 1 step by step. Returns (context, weights), the weights before any dropout."""
    allowed = _as_mask(q, allowed, causal=causal)  # broadcasts to [B, h, T, S]
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # [B, h, T, S]
    if allowed is not None:
        scores = torch.where(allowed, scores, -math.inf)
    weights = scores.softmax(dim=-1)  # [B, h, T, S]
    context = (F.dropout(weights, p_drop) if p_drop else weights) @ v  # [B, h, T, d_v]
    return context, weights


def _as_mask(q: Tensor, allowed: Allowed, *, causal: bool) -> Tensor | None:
    if isinstance(allowed, Spans):
        allowed = allowed.allowed()  # [T, S]
    elif causal:
        assert allowed is None, "causal or a mask, not both"
    if not causal:
        return allowed
    back = causal_allowed(q.size(-2), device=q.device)  # [T, T]
    return back if allowed is None else back & allowed


class AttentionRecorder:
    """Attends as eq. 1 is written and keeps the weights of each call, in the order of the calls."""

    def __init__(self) -> None:
        self.weights: list[Tensor] = []

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        allowed: Allowed = None,
        causal: bool = False,
        p_drop: float = 0.0,
    ) -> Tensor:
        """Return the context and keep the weights."""
        context, weights = attend_as_written(q, k, v, allowed=allowed, causal=causal, p_drop=p_drop)
        self.weights.append(weights)
        return context


class MultiHeadAttention(nn.Module):
    """§3.2.2: h attentions side by side, each over its own projections to d_k, d_k and d_v."""

    def __init__(
        self, d_model: int, h: int, *, d_k: int, d_v: int, bias: bool = False, p_drop: float = 0.0
    ) -> None:
        super().__init__()
        self.h = h
        self.p_drop = p_drop
        self.w_q = nn.Linear(d_model, h * d_k, bias=bias)
        self.w_k = nn.Linear(d_model, h * d_k, bias=bias)
        self.w_v = nn.Linear(d_model, h * d_v, bias=bias)
        self.w_o = nn.Linear(h * d_v, d_model, bias=bias)

    def forward(
        self,
        x: Tensor,  # [B, T, d_model]
        memory: Tensor,  # [B, S, d_model]
        *,
        allowed: Allowed = None,
        causal: bool = False,
        attend: Attend = attend_fused,
    ) -> Tensor:
        """Let each position of x look at the positions of memory (x itself for self-attention)."""
        if isinstance(allowed, Spans) and attend is attend_fused and self._takes_kernel(x):
            return self._look_along_row(x, memory, allowed, causal=causal)
        q, k, v = self.project(x) if memory is x else (self.queries(x), *self.keys_values(memory))
        return self.look(q, k, v, allowed=allowed, causal=causal, attend=attend)  # [B, T, d_model]

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project x to queries, keys and values: what self-attention needs."""
        q, k, v = self._heads(x, self.w_q, self.w_k, self.w_v)
        return q, k, v

    def queries(self, x: Tensor) -> Tensor:
        """Project what looks."""
        (q,) = self._heads(x, self.w_q)
        return q

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Project what is looked at; the result may be kept and looked at again."""
        k, v = self._heads(memory, self.w_k, self.w_v)
        return k, v

    def look(
        self,
        q: Tensor,  # [B, h, T, d_k]
        k: Tensor,  # [B, h, S, d_k]
        v: Tensor,  # [B, h, S, d_v]
        *,
        allowed: Allowed = None,
        causal: bool = False,
        attend: Attend = attend_fused,
    ) -> Tensor:
        """Let queries look at keys and values, and project what the heads saw."""
        p_drop = self.p_drop if self.training else 0.0
        heads = attend(q, k, v, allowed=allowed, causal=causal, p_drop=p_drop)  # [B, h, T, d_v]
        concatenated = heads.transpose(1, 2).flatten(2)  # [B, T, h*d_v]
        output: Tensor = self.w_o(concatenated)  # [B, T, d_model]
        return output

    def _takes_kernel(self, x: Tensor) -> bool:
        drops = self.training and self.p_drop > 0
        fits = x.is_cuda and x.dtype != torch.float64 and not drops
        return fits and (torch.compiler.is_compiling() or kernels_work())

    def _look_along_row(self, x: Tensor, memory: Tensor, allowed: Spans, *, causal: bool) -> Tensor:
        """Do as `forward` for a row of sentences, with the projections of one input side by side.

        So they lie when they are computed, and so their gradients are needed: else these would be
        brought together by copying.
        """
        from transduce.nn.span_kernels import attend_spans

        if self.w_k.out_features != self.w_v.out_features:
            groups = [(x, [self.w_q]), (memory, [self.w_k]), (memory, [self.w_v])]
        elif memory is x:
            groups = [(x, [self.w_q, self.w_k, self.w_v])]
        else:
            groups = [(x, [self.w_q]), (memory, [self.w_k, self.w_v])]
        packed = [
            linear_joined(rows, *layers).view(rows.size(1), len(layers), self.h, -1)
            for rows, layers in groups
        ]
        heads = attend_spans(packed, allowed, causal=causal)
        output: Tensor = self.w_o(heads.flatten(1).unsqueeze(0))
        return output

    def _heads(self, x: Tensor, *projections: nn.Linear) -> list[Tensor]:
        projected = linear_together(x, *projections)
        return [y.view(*y.shape[:-1], self.h, -1).transpose(1, 2) for y in projected]
