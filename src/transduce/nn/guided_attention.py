"""Guided alignment: one head of cross-attention is trained to point to what a token translates.

Chen et al. (2016), and Garg et al. (2019), who guide a single head. Its weights are computed a
second time, from its own queries and keys alone: the attention stays as it is, fused or not.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from transduce.nn.mixers.attention import MultiHeadAttention
from transduce.nn.mixers.key_ranges import KeyRanges

BLOCK = 128
"""Queries of a packed row that are compared with one window of keys."""
WINDOW = 512
"""Keys in a window. A sentence that ends beyond it, because it or those before it in the block are
long, is not guided; padded batches have no windows."""


@dataclass
class AlignmentGuide:
    """What a layer is told about the right alignment, and what it reports; one for each call."""

    links: Tensor
    """The column of the source token that each target token translates, [B, T]; -1: none."""
    loss: Tensor | None = None
    """−log of the first head's weight for that token, summed over all tokens that have one."""


def alignment_loss(
    attention: MultiHeadAttention,
    x: Tensor,  # [B, T, d_model]
    memory: Tensor,  # [B, S, d_model]
    *,
    allowed: Tensor | KeyRanges,
    links: Tensor,  # [B, T]
) -> Tensor:
    """Return the cross-entropy of the first head's weights to the links, summed over tokens."""
    q = attention.ready_queries(_first_head(attention.w_q, x, attention.d_k))  # [B, T, d_k]
    k = attention.ready_keys(_first_head(attention.w_k, memory, attention.d_k))  # [B, S, d_k]
    if isinstance(allowed, KeyRanges):
        q, k, seen, links = _in_blocks(q[0], k[0], allowed, links[0])
    else:
        seen = allowed[:, 0]  # [B, 1, S]
    scores = q @ k.transpose(1, 2) / math.sqrt(attention.d_k)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    logarithms = scores.masked_fill(~seen, -math.inf).log_softmax(dim=-1)
    chosen = logarithms.gather(2, links.clamp_min(0)[:, :, None])[:, :, 0]
    return -torch.where(links >= 0, chosen, 0.0).sum()


def _first_head(projection: torch.nn.Linear, x: Tensor, width: int) -> Tensor:
    bias = None if projection.bias is None else projection.bias[:width]
    return F.linear(x, projection.weight[:width], bias)


def _in_blocks(
    q: Tensor, k: Tensor, ranges: KeyRanges, links: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Cut a packed row into blocks of queries, each with the window of keys that begins its first.

    Sentences lie in one order in both rows, so the keys of a block's queries are neighbours. All
    shapes follow from those of the row, so the step can be recorded. Returns queries, keys, which
    keys each query sees, and the links within the window.
    """
    rest = -q.size(0) % BLOCK
    queries = F.pad(q, (0, 0, 0, rest)).view(-1, BLOCK, q.size(1))
    first, end = (F.pad(x, (0, rest)).view(-1, BLOCK) for x in (ranges.first, ranges.end))
    links = F.pad(links, (0, rest), value=-1).view(-1, BLOCK)
    begins = first[:, :1]
    columns = begins + torch.arange(WINDOW, device=q.device)
    keys = k[columns.clamp_max(k.size(0) - 1)]
    within = (columns[:, None] >= first[:, :, None]) & (columns[:, None] < end[:, :, None])
    is_guided = (links >= 0) & (end <= begins + WINDOW)
    links = torch.where(is_guided, links - begins, -1)
    return queries, keys, within | ~is_guided[:, :, None], links
