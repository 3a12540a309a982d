"""The best continuations of every hypothesis, in as few passes over the vocabulary as possible."""

import torch
from torch import Tensor

from transduce.nn.kernels.available import in_cuda_inference
from transduce.search.hypothesis import log_probabilities

CHUNK = 64
"""The entries of the vocabulary that are first represented by their maximum."""

BLOCK = 1 << 20
"""How many log-probabilities the CPU computes at a time."""


def best_continuations(
    logits: Tensor,
    scores: Tensor,
    count: int,
    *,
    allowed: Tensor | None = None,
    renormalise: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the best hypotheses that k hypotheses, [B, k], can become by one token of [B, k, V].

    Returned are their scores, sorted, which hypothesis each continues, and by which id, each
    [B, count]. Where fewer exist, the score is −∞. `allowed`, which broadcasts to [B, k, V], masks
    the tokens to choose from. Their probabilities are those among all tokens, or, renormalised,
    those among the allowed.
    """
    n = min(count, logits.size(2))
    if allowed is None:
        best, ids, normaliser = likeliest(logits, n)  # [B, k, n]
        log_p = best - normaliser  # [B, k, n]
    else:
        best, ids, normaliser = likeliest_allowed(logits, n, allowed, renormalise=renormalise)
        # Where nothing is allowed, the normaliser may be infinite or no number.
        log_p = (best - normaliser).masked_fill(best.isneginf(), -torch.inf)  # [B, k, n]
    total = (scores[:, :, None] + log_p).flatten(1)  # [B, k*n]
    best, places = total.topk(count, dim=1)  # [B, count]
    return best, places // ids.size(2), ids.flatten(1).gather(1, places)


def likeliest(logits: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the largest logits of every row, their ids, and the log of the row's sum of exp."""
    if _suits_kernel(logits, count):
        from transduce.search import kernels

        return kernels.likeliest(logits.contiguous(), count)
    best, ids = top_of_rows(logits, count)
    return best, ids, best[..., :1] - _log_probability_of(ids[..., :1], logits)


def likeliest_allowed(
    logits: Tensor, count: int, allowed: Tensor, *, renormalise: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Do the same among the allowed tokens; the sum is over these alone if renormalised."""
    if _suits_kernel(logits, count):
        from transduce.search import kernels

        return kernels.likeliest(
            logits.contiguous(), count, allowed=allowed, renormalise=renormalise
        )
    choosable = logits.masked_fill(~allowed, -torch.inf)  # [B, k, V]
    best, ids = top_of_rows(choosable, count)
    summed = choosable if renormalise else logits
    first = ids[..., :1]
    return best, ids, summed.gather(-1, first) - _log_probability_of(first, summed)


def _log_probability_of(ids: Tensor, logits: Tensor) -> Tensor:
    """Return the log-probability of one id in each row, [B, k, 1].

    log_softmax is one pass, where torch's logsumexp is several. On the CPU it goes block by block:
    its result is thrown away, and one of a large batch would be new, cleared pages at every step.
    """
    block = max(1, BLOCK // logits.size(-1))
    if logits.device.type != "cpu" or logits.numel() <= BLOCK:
        return log_probabilities(logits).gather(-1, ids)
    rows, ids_of_rows = logits.flatten(0, -2), ids.flatten(0, -2)  # [B*k, V], [B*k, 1]
    parts = zip(torch.split(rows, block), torch.split(ids_of_rows, block), strict=True)
    return torch.cat([log_probabilities(part).gather(-1, its) for part, its in parts]).view_as(ids)


def _suits_kernel(logits: Tensor, count: int) -> bool:
    if not in_cuda_inference(logits) or 2 * count * CHUNK > logits.size(2):
        return False
    from transduce.search.kernels import MAX_COUNT

    return count <= MAX_COUNT


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
    is_beyond = places >= size
    places = places.clamp(max=size - 1)  # even where only −∞ is left, it is a place of the row
    best, order = x.gather(-1, places).masked_fill(is_beyond, -torch.inf).topk(count, dim=-1)
    return best, places.gather(-1, order)
