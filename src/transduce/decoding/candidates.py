"""The best continuations of every hypothesis, in as few passes over the vocabulary as can be."""

import torch
from torch import Tensor

from transduce.decoding.answer import log_probabilities
from transduce.nn.device import runs_kernels
from transduce.text.special_ids import PAD_ID

CHUNK = 64
"""The entries of the vocabulary that are first looked at as one."""


def best_continuations(
    logits: Tensor, scores: Tensor, count: int, *, given: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the best that k hypotheses, [B, k], can become by one token of [B, k, V].

    That is their scores, sorted, and from which hypothesis by which id, each [B, count]. `given`,
    [B], is what the token must be, or PAD_ID where it is free. Where fewer exist, −∞ stands.
    """
    best, ids, normaliser = _likeliest(logits, min(count, logits.size(2)))  # [B, k, n]
    log_p = best - normaliser  # [B, k, n]
    if given is not None:
        must = given[:, None, None].expand_as(normaliser)  # [B, k, 1]
        forced = torch.full_like(log_p, -torch.inf)
        forced[:, :, :1] = logits.gather(2, must) - normaliser
        log_p = torch.where(must == PAD_ID, log_p, forced)
        ids = torch.where(must == PAD_ID, ids, must)
    total = (scores[:, :, None] + log_p).flatten(1)  # [B, k*n]
    best, places = total.topk(count, dim=1)  # [B, count]
    return best, places // ids.size(2), ids.flatten(1).gather(1, places)


def _likeliest(logits: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the largest logits of every row, their ids, and the log of the row's sum of exp."""
    if runs_kernels(logits) and 2 * count * CHUNK <= logits.size(2):
        from transduce.decoding.kernels import MOST, likeliest

        if count <= MOST:
            return likeliest(logits.contiguous(), count)
    best, ids = top_of_rows(logits, count)
    # log_softmax is one pass, where torch's logsumexp is several.
    return best, ids, best[..., :1] - log_probabilities(logits).gather(-1, ids[..., :1])


def top_of_rows(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Do what topk over the last dimension does: the largest, sorted, and their places.

    The count largest lie in the count chunks with the largest maxima: only those are searched.
    """
    size = x.size(-1)
    whole = size // CHUNK
    if whole < 2 * count:
        return x.topk(count, dim=-1)
    maxima = x[..., : whole * CHUNK].view(*x.shape[:-1], whole, CHUNK).amax(dim=-1)
    if size % CHUNK:
        maxima = torch.cat([maxima, x[..., whole * CHUNK :].amax(dim=-1, keepdim=True)], dim=-1)
    chunks = maxima.topk(count, dim=-1, sorted=False).indices
    places = (chunks[..., None] * CHUNK + torch.arange(CHUNK, device=x.device)).flatten(-2)
    inside = x.gather(-1, places.clamp(max=size - 1)).masked_fill(places >= size, -torch.inf)
    best, order = inside.topk(count, dim=-1)
    return best, places.gather(-1, order)
