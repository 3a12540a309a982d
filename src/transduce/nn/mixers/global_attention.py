"""Longformer's self-attention (Beltagy et al. 2020): a window, and a few tokens that see all.

Position i sees position j if they are near, or if one of them is global: here the first few tokens
of a sentence. Any two positions are then two steps apart. Global tokens have no projections of
their own, so all is one masked softmax, computed in blocks: O(n · (r + g) · d) operations.
"""

import math
from typing import Unpack

import torch
from torch import Tensor

from transduce.nn.mixers.attention import (
    Attend,
    AttentionOptions,
    MultiHeadAttention,
    attend_fused,
)
from transduce.nn.mixers.local_attention import Neighbourhood, is_cheaper_in_blocks
from transduce.nn.mixers.masks import Allowed
from transduce.nn.mixers.positions import ScoreTerm


class GlobalAttention(MultiHeadAttention):
    """Self-attention of an encoder with a window and `global_tokens` global tokens."""

    def __init__(
        self,
        d_model: int,
        h: int,
        *,
        d_k: int,
        d_v: int,
        global_tokens: int,
        **options: Unpack[AttentionOptions],
    ) -> None:
        super().__init__(d_model, h, d_k=d_k, d_v=d_v, **options)
        self.global_tokens = global_tokens

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
        """Attend in blocks, or to a masked full matrix if that is asked for or is smaller."""
        assert self.window is not None, "the tokens that are not global need a window"
        assert not causal, "a global token sees what comes after it"
        assert allowed is None or isinstance(allowed, Tensor), "packed rows have no first tokens"
        p_drop = self.p_drop if self.training else 0.0
        first = min(self.global_tokens, q.size(2))
        if attend is attend_fused and is_cheaper_in_blocks(q.size(2), self.window, causal=False):
            heads = attend_global(
                q,
                k,
                v,
                allowed=allowed,
                p_drop=p_drop,
                term=term,
                window=self.window,
                global_tokens=first,
                additive=self.v_score,
            )
        else:
            mask = global_allowed(q.size(2), self.window, first, device=q.device)
            mask = mask if allowed is None else mask & allowed
            heads = attend(q, k, v, allowed=mask, p_drop=p_drop, term=term, additive=self.v_score)
        return self.output(heads)


def global_allowed(
    length: int, window: int, global_tokens: int, *, device: torch.device | None = None
) -> Tensor:
    """Return which positions see each other, as a mask over all of them: [T, T]."""
    at = torch.arange(length, device=device)
    is_global = at < global_tokens
    near = (at - at[:, None]).abs() < window
    return near | is_global | is_global[:, None]  # [T, T]


def attend_global(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    allowed: Tensor | None,
    p_drop: float,
    term: ScoreTerm | None,
    window: int,
    global_tokens: int,
    additive: Tensor | None = None,
) -> Tensor:
    """Attend as `global_allowed` says, in blocks; q, k and v are [B, h, T, d].

    `allowed` is None or a mask of keys that is the same for all queries and heads, [B, 1, 1, T].
    """
    near, g = Neighbourhood.of(q, window, causal=False), global_tokens
    to_few = near.seen(allowed, causal=False, window=window) & (near.keys >= g)[:, None]
    to_few = to_few.expand(q.size(0), -1, -1, -1).flatten(0, 1)[:, None]
    to_global = _global_keys_seen(to_few, allowed, g, near.blocks)
    mask = torch.cat([to_global, to_few], dim=-1)
    if term is not None:
        distances = _distances(q.size(2), g, q.device)
        of_global = near.cut(_dense(term, distances, like=q))
        of_few = near.term(term, like=q).expand(*of_global.shape[:3], -1)
        mask = torch.where(mask, torch.cat([of_global, of_few], dim=-1), -math.inf)
    keys, values = (
        torch.cat([x[:, :, :g].repeat_interleave(near.blocks, dim=0), near.around(x)], dim=2)
        for x in (k, v)
    )
    most = attend_fused(near.cut(q), keys, values, allowed=mask, p_drop=p_drop, additive=additive)
    of_all = allowed
    if term is not None:
        added = _dense(_first(term, g), -_distances(q.size(2), g, q.device).t(), like=q)
        of_all = added if allowed is None else torch.where(allowed, added, -math.inf)
    first = attend_fused(q[:, :, :g], k, v, allowed=of_all, p_drop=p_drop, additive=additive)
    return torch.cat([first, near.join(most)[:, :, g:]], dim=2)


def _global_keys_seen(like: Tensor, allowed: Tensor | None, g: int, blocks: int) -> Tensor:
    """Return which global keys the queries of each block see: [B·blocks, 1, block, g]."""
    shape = (*like.shape[:3], g)
    if allowed is None:
        return like.new_ones(shape)
    return allowed[..., :g].repeat_interleave(blocks, dim=0).expand(shape)


def _distances(length: int, g: int, device: torch.device) -> Tensor:
    """Return the distances j − i of the global keys from all queries, [T, g]."""
    return torch.arange(g, device=device) - torch.arange(length, device=device)[:, None]


def _first(term: ScoreTerm, g: int) -> ScoreTerm:
    """Return the term of the first g queries."""
    return ScoreTerm(term.table[:, :, :g])


def _dense(term: ScoreTerm, distances: Tensor, *, like: Tensor) -> Tensor:
    return term.dense(distances).to(like.dtype).expand(like.size(0), -1, -1, -1)
