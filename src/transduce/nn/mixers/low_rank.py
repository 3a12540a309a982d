"""Linformer's attention (Wang et al. 2020): keys and values compressed to a fixed number of rows.

A learned matrix of `rank` rows maps the n keys to `rank` sums of them, another the values. To
attend to these takes O(n · rank · d) operations. A sum mixes keys of all positions, so no position
can be kept from seeing later ones: there is no causal form.
"""

from typing import Unpack

import torch
from torch import Tensor, nn

from transduce.nn.mixers.attention import (
    Attend,
    AttentionOptions,
    MultiHeadAttention,
    attend_fused,
)
from transduce.nn.mixers.masks import Allowed
from transduce.nn.mixers.positions import ScoreTerm


class LowRankAttention(MultiHeadAttention):
    """Attention to `rank` sums of the keys and values of up to `max_positions` positions.

    The heads of a layer share both matrices. Positions that are not allowed add nothing to a sum.
    """

    def __init__(
        self,
        d_model: int,
        h: int,
        *,
        d_k: int,
        d_v: int,
        rank: int,
        max_positions: int,
        **options: Unpack[AttentionOptions],
    ) -> None:
        super().__init__(d_model, h, d_k=d_k, d_v=d_v, **options)
        assert self.term is None, "sums of keys have no position"
        assert self.window is None, "sums of keys have no position"
        self.sum_keys = nn.Parameter(torch.empty(rank, max_positions))
        self.sum_values = nn.Parameter(torch.empty(rank, max_positions))

    def init_weights(self) -> None:
        """Draw the sums with variance 1 / rank, as the paper does."""
        super().init_weights()
        for sums in (self.sum_keys, self.sum_values):
            nn.init.normal_(sums, std=sums.size(0) ** -0.5)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        allowed: Allowed = None,
        causal: bool = False,
        attend: Attend = attend_fused,
    ) -> Tensor:
        """Let each position of x attend to sums over memory; there are no weights to record."""
        assert not causal, "sums over all positions cannot be causal"
        del attend
        q, k, v = self.project(x) if memory is x else (self.queries(x), *self.keys_values(memory))
        q, k = self.rotated(q, k)  # in self-attention alone
        return self.attend(q, *self._compressed(k, v, allowed))

    def source(self, memory: Tensor, allowed: Allowed = None) -> tuple[Tensor, Tensor]:
        """Project and compress what a search attends to in each of its steps."""
        return self._compressed(*self.keys_values(memory), allowed)

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        allowed: Allowed = None,
        causal: bool = False,
        attend: Attend = attend_fused,
        term: ScoreTerm | None = None,
    ) -> Tensor:
        """Let queries attend to all sums, which hold only what was allowed."""
        del allowed
        return super().attend(q, k, v, causal=causal, attend=attend, term=term)

    def _compressed(self, k: Tensor, v: Tensor, allowed: Allowed) -> tuple[Tensor, Tensor]:
        assert allowed is None or isinstance(allowed, Tensor), "packed rows have no own sums"
        n = k.size(2)
        if allowed is not None:
            real = allowed.transpose(-2, -1).to(k.dtype)  # one number a position
            k, v = k * real, v * real
        return self.sum_keys[:, :n] @ k, self.sum_values[:, :n] @ v
