"""Which keys a query may attend to, as masks that broadcast to [B, h, T, S].

A boolean mask is True where a query may attend. A mask of numbers is added to the scaled scores:
−∞ hides a key.
"""

import math

import torch
from torch import Tensor

from transduce.nn.mixers.key_ranges import KeyRanges
from transduce.nn.mixers.positions import ScoreTerm

Allowed = Tensor | KeyRanges | None
"""Which keys each query may attend to: a mask, ranges of keys, or None for all of them."""


def padding_allowed(ids: Tensor, pad_id: int) -> Tensor:
    """Allow every query all real tokens.

    A sentence of nothing but padding may attend to all of it: a softmax over no keys is NaN in
    plain torch, 0 in most fused kernels, and neither in cuDNN's.
    """
    real = ids != pad_id  # [B, S]
    allowed = real | ~real.any(dim=1, keepdim=True)  # [B, S]
    return allowed[:, None, None, :]  # [B, 1, 1, S]


def causal_allowed(length: int, *, device: torch.device | None = None) -> Tensor:
    """Allow position i the positions ≤ i (§3.2.3)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()  # [T, T]


def dense_mask(
    q: Tensor,
    k: Tensor,
    allowed: Allowed,
    *,
    causal: bool = False,
    term: ScoreTerm | None = None,
    window: int | None = None,
) -> Tensor | None:
    """Turn all that limits or shifts the scores of q and k, [B, h, …, d_k], into one mask."""
    if isinstance(allowed, KeyRanges):
        allowed = allowed.allowed()  # [T, S]
    elif causal:
        assert allowed is None, "causal or a mask, not both"
    if causal:
        past = causal_allowed(q.size(-2), device=q.device)  # [T, T]
        allowed = past if allowed is None else past & allowed
    if term is None and window is None:
        return allowed
    queries, keys = (torch.arange(x.size(-2), device=q.device) for x in (q, k))
    return mask_by_distance(allowed, keys - queries[:, None], term=term, window=window, like=q)


def mask_by_distance(
    allowed: Tensor | None,
    distances: Tensor,
    *,
    term: ScoreTerm | None,
    window: int | None,
    like: Tensor,
) -> Tensor | None:
    """Narrow a boolean mask to a window, and fill it with a score term of the type of `like`.

    The distances j − i of keys from queries are [T, S], or [1, S] for all queries. A query that
    finds no key in its window, which only padding does, keeps all that it was allowed.
    """
    if window is not None:
        near = distances.abs() < window
        if allowed is not None:
            near = near & allowed
            near = torch.where(near.any(dim=-1, keepdim=True), near, allowed)
        allowed = near
    if term is None:
        return allowed
    added = term.dense(distances).to(like.dtype)
    return added if allowed is None else torch.where(allowed, added, -math.inf)
