"""Restricted self-attention (§4): each position attends to its neighbourhood, in blocks.

A mask over all n × n scores restricts what attention sees, not what it costs. Here the queries are
cut into blocks of at least the window's reach, so the keys that a block may see lie in itself and
in the blocks beside it: O(n · r · d) operations and O(n · r) scores for a neighbourhood of r keys.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from transduce.nn.mixers.attention import Attend, MultiHeadAttention, attend_fused
from transduce.nn.mixers.key_ranges import KeyRanges
from transduce.nn.mixers.masks import Allowed
from transduce.nn.mixers.positions import ScoreTerm

MIN_BLOCK = 32
"""The smallest block: smaller ones would be more products than a processor computes well."""


def attend_local(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    allowed: Allowed = None,
    causal: bool = False,
    p_drop: float = 0.0,
    term: ScoreTerm | None = None,
    window: int | None = None,
    additive: Tensor | None = None,
) -> Tensor:
    """Eq. 1 for keys at a distance of less than `window`; an `Attend` of self-attention.

    q, k and v are [B, h, T, d]. `allowed` is None, ranges of keys, or a mask of keys that is the
    same for all queries and heads, [B, 1, 1, T]. A query that finds no key in its window, which
    only padding does, attends to all keys of its blocks.
    """
    assert window is not None, "local attention needs a window"
    assert q.size(2) == k.size(2), "only self-attention has a neighbourhood"
    near = Neighbourhood.of(q, window, causal=causal)
    keys, values = near.around(k), near.around(v)
    seen = near.seen(allowed, causal=causal, window=window)
    seen = seen | ~seen.any(dim=-1, keepdim=True)
    mask = seen.expand(q.size(0), -1, -1, -1).flatten(0, 1)[:, None]
    if term is not None:
        mask = torch.where(mask, near.term(term, like=q), -math.inf)
    heads = attend_fused(near.cut(q), keys, values, allowed=mask, p_drop=p_drop, additive=additive)
    return near.join(heads)


def is_cheaper_in_blocks(length: int, window: int, *, causal: bool) -> bool:
    """Return whether blocks hold fewer scores than all n × n of a sequence of this length."""
    return length > (2 if causal else 3) * max(window - 1, MIN_BLOCK)


class WindowAttention(MultiHeadAttention):
    """Self-attention with a window: long sequences are attended to in blocks."""

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
        """Attend in blocks, unless another way is asked for or the sequences are short."""
        assert self.window is not None, "a window attention needs a window"
        if attend is attend_fused and is_cheaper_in_blocks(q.size(2), self.window, causal=causal):
            attend = attend_local
        return super().attend(q, k, v, allowed=allowed, causal=causal, attend=attend, term=term)


class Neighbourhood:
    """Where the queries of all blocks and the keys around them lie in the sentence."""

    def __init__(
        self, length: int, block: int, blocks: int, sides: tuple[int, int], device: torch.device
    ) -> None:
        starts = torch.arange(blocks, device=device)[:, None] * block
        span = (sum(sides) + 1) * block
        self.block, self.sides = block, sides
        self.length, self.blocks = length, blocks
        self.queries = starts + torch.arange(block, device=device)  # blocks × block
        self.keys = starts + torch.arange(span, device=device) - sides[0] * block  # blocks × span
        self.distances = self.keys[0] - self.queries[0][:, None]  # block × span, in every block

    @classmethod
    def of(cls, q: Tensor, window: int, *, causal: bool) -> "Neighbourhood":
        """Cut sequences into blocks such that those beside a block hold all keys of its windows."""
        length = q.size(2)
        block = min(max(window - 1, MIN_BLOCK), length)
        sides = (1, 0) if causal else (1, 1)  # blocks of keys before and after a block of queries
        return cls(length, block, math.ceil(length / block), sides, q.device)

    def cut(self, x: Tensor) -> Tensor:
        """Cut [B, h, T, d] into blocks: [B·blocks, h, block, d]."""
        return _cut(x, self.block, self.blocks).flatten(0, 1)

    def around(self, x: Tensor) -> Tensor:
        """Return each block with those beside it: [B·blocks, h, span, d]."""
        return _neighbours(_cut(x, self.block, self.blocks), self.sides).flatten(0, 1)

    def join(self, x: Tensor) -> Tensor:
        """Undo `cut`."""
        by_sentence = x.view(-1, self.blocks, *x.shape[1:]).transpose(1, 2)
        return by_sentence.flatten(2, 3)[:, :, : self.length]

    def seen(self, allowed: Allowed, *, causal: bool, window: int) -> Tensor:
        """Return which keys each query sees, for each sentence or all: [B, blocks, block, span]."""
        near = self.distances.abs() < window
        if causal:
            near = near & (self.distances <= 0)
        exists = (self.keys >= 0) & (self.keys < self.length)
        seen = (near & exists[:, None])[None]
        if isinstance(allowed, KeyRanges):
            seen = seen & self._in_ranges(allowed)
        elif allowed is not None:
            seen = seen & self._of_keys(allowed)
        return seen

    def term(self, term: ScoreTerm, *, like: Tensor) -> Tensor:
        """Return a score term by block, which broadcasts to [B·blocks, h, block, span]."""
        if term.table.size(2) > 1:  # each query has its own
            by_sentence = term.table.expand(like.size(0), -1, -1, -1)
            term = ScoreTerm(self.cut(by_sentence))
        return term.dense(self.distances).to(like.dtype)

    def _in_ranges(self, ranges: KeyRanges) -> Tensor:
        rest = self.queries.numel() - self.length  # queries after the end: their range is empty
        first, end = (
            F.pad(bound, (0, rest)).view(self.blocks, -1, 1) for bound in (ranges.first, ranges.end)
        )
        keys = self.keys[:, None]
        return (keys >= first) & (keys < end)

    def _of_keys(self, allowed: Tensor) -> Tensor:
        assert allowed.shape[1:] == (1, 1, self.length), "a mask of keys is [B, 1, 1, T]"
        return allowed[:, 0, 0][:, self.keys.clamp(0, self.length - 1)][:, :, None]


def _cut(x: Tensor, block: int, blocks: int) -> Tensor:
    """Cut [B, h, T, d] into [B, blocks, h, block, d], with zeros after the end."""
    padded = F.pad(x, (0, 0, 0, block * blocks - x.size(2)))
    return padded.view(*x.shape[:2], blocks, block, -1).transpose(1, 2)


def _neighbours(x: Tensor, sides: tuple[int, int]) -> Tensor:
    """Join each block with those beside it: [B, blocks, h, span·block, d]."""
    blocks = x.size(1)
    padded = F.pad(x, (0, 0, 0, 0, 0, 0, *sides))
    return torch.cat([padded[:, i : i + blocks] for i in range(sum(sides) + 1)], dim=3)
