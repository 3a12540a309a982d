"""Attention (§3.2): eq. 1, as it is written and as a fused kernel, and the multi-head form."""

import math
from typing import Protocol

import torch.nn.functional as F
from torch import Tensor, nn

from transduce.nn.device import fits_kernels, runs_kernels
from transduce.nn.masks import causal_allowed


class Attend(Protocol):
    """Eq. 1, however computed: softmax(q k^T / sqrt(d_k)) v.

    `allowed` is True where a query may look and broadcasts to [B, h, T, S]; None allows all. Every
    query must be able to look somewhere. `causal`, instead, lets position i look at positions ≤ i.
    """

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        allowed: Tensor | None = None,
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
    allowed: Tensor | None = None,
    causal: bool = False,
    p_drop: float = 0.0,
) -> Tensor:
    """Eq. 1 in one kernel, which never writes the weights to memory."""
    is_plain = not causal and p_drop == 0
    fits = fits_kernels(q.size(-2), q.size(-1), v.size(-1), q.dtype)
    if is_plain and fits and runs_kernels(q):
        from transduce.nn.kernels import attend_few

        return attend_few(q, k, v, allowed)
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=allowed, dropout_p=p_drop, is_causal=causal
    )  # [B, h, T, d_v]


def attend_as_written(
    q: Tensor,  # [B, h, T, d_k]
    k: Tensor,  # [B, h, S, d_k]
    v: Tensor,  # [B, h, S, d_v]
    *,
    allowed: Tensor | None = None,
    causal: bool = False,
    p_drop: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Eq. 1 step by step. Returns (context, weights), the weights before any dropout."""
    assert not (causal and allowed is not None), "causal or allowed, not both"
    if causal:
        allowed = causal_allowed(q.size(-2), device=q.device)  # [T, T]
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # [B, h, T, S]
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    weights = scores.softmax(dim=-1)  # [B, h, T, S]
    context = F.dropout(weights, p_drop) @ v  # [B, h, T, d_v]
    return context, weights


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
        allowed: Tensor | None = None,
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
        allowed: Tensor | None = None,
        causal: bool = False,
        attend: Attend = attend_fused,
    ) -> Tensor:
        """Let each position of x look at the positions of memory (x itself for self-attention)."""
        k, v = self.keys_values(memory)
        return self.query(x, k, v, allowed=allowed, causal=causal, attend=attend)  # [B, T, d_model]

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Project what is looked at; the result may be kept and queried again."""
        k = self._split_heads(self.w_k(memory))  # [B, h, S, d_k]
        v = self._split_heads(self.w_v(memory))  # [B, h, S, d_v]
        return k, v

    def query(
        self,
        x: Tensor,  # [B, T, d_model]
        k: Tensor,  # [B, h, S, d_k]
        v: Tensor,  # [B, h, S, d_v]
        *,
        allowed: Tensor | None = None,
        causal: bool = False,
        attend: Attend = attend_fused,
    ) -> Tensor:
        """Let each position of x look at keys and values that were projected before."""
        q = self._split_heads(self.w_q(x))  # [B, h, T, d_k]
        p_drop = self.p_drop if self.training else 0.0
        heads = attend(q, k, v, allowed=allowed, causal=causal, p_drop=p_drop)  # [B, h, T, d_v]
        concatenated = heads.transpose(1, 2).flatten(2)  # [B, T, h*d_v]
        output: Tensor = self.w_o(concatenated)  # [B, T, d_model]
        return output

    def _split_heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.h, -1).transpose(1, 2)
