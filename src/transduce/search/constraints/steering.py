"""The best continuations where a constraint has to be met step by step: beams divided by progress.

A hypothesis that has written a required phrase is often less likely than one that has not yet. So
the places of a beam are divided among the candidates by their progress, after Post and Vilar
(2018): the best of each degree of progress comes first, then the second best of each, and so on.
Beside the likeliest tokens, each hypothesis is tried with those that the constraint proposes.
"""

import torch
from torch import Tensor

from transduce.search.candidates import likeliest_allowed
from transduce.search.constraint import Steering
from transduce.text.special_ids import EOS_ID


def steered_continuations(
    logits: Tensor, scores: Tensor, steering: Steering, *, allowed: Tensor, renormalise: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return scores, parents and ids of the chosen continuations, each [B, 2k].

    The first k places are for those that end, the others for the k that go on; where fewer
    exist, the score is −∞.
    """
    k = scores.size(1)
    n = min(2 * k, logits.size(2))
    likeliest = likeliest_allowed(logits, n, allowed, renormalise=renormalise)  # [B, k, n]
    total, parents, ids = _candidates(logits, scores, steering, allowed, likeliest)  # [B, n]
    rank = _rank_by_progress(total, steering.progress(parents, ids))  # [B, n]
    is_end = ids == EOS_ID  # [B, n]
    # What ends counts if it is among the k first of all.
    ended, end_places = _first(total, rank.masked_fill(~is_end, rank.size(1)), k, below=k)
    live_rank = rank.masked_fill(is_end, rank.size(1))  # [B, n]
    live, live_places = _first(total, live_rank, k, below=rank.size(1))
    places = torch.cat([end_places, live_places], dim=1)  # [B, 2k]
    chosen = torch.cat([ended, live], dim=1)  # [B, 2k]
    return chosen, parents.gather(1, places), ids.gather(1, places)


def _candidates(
    logits: Tensor,
    scores: Tensor,
    steering: Steering,
    allowed: Tensor,
    likeliest: tuple[Tensor, Tensor, Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    """Return scores, parents and ids of all candidates, [B, n]: likely and proposed ones."""
    k = scores.size(1)
    best, ids, normaliser = likeliest  # [B, k, n]
    proposed = steering.proposals()  # [B, k, m]
    is_new = (proposed >= 0) & ~(proposed[:, :, :, None] == ids[:, :, None]).any(dim=3)
    is_new &= ~_is_repeated(proposed)
    tokens = proposed.clamp(min=0)  # [B, k, m]
    is_new &= allowed.expand_as(logits).gather(2, tokens)
    more = logits.gather(2, tokens).masked_fill(~is_new, -torch.inf)  # [B, k, m]
    both = torch.cat([best, more], dim=2)  # [B, k, n + m]
    log_p = (both - normaliser).masked_fill(both.isneginf(), -torch.inf)
    total = scores[:, :, None] + log_p
    parents = torch.arange(k, device=scores.device)[:, None].expand(*total.shape[:1], -1, 1)
    return (
        total.flatten(1),
        parents.expand_as(total).flatten(1),
        torch.cat([ids, tokens], dim=2).flatten(1),
    )


def _is_repeated(tokens: Tensor) -> Tensor:
    """Return whether a token has occurred before in its row, [B, k, m]."""
    in_order, places = tokens.sort(dim=2, stable=True)  # [B, k, m]
    is_repeated = torch.zeros_like(tokens, dtype=torch.bool)
    is_repeated[:, :, 1:] = in_order[:, :, 1:] == in_order[:, :, :-1]
    return torch.empty_like(is_repeated).scatter_(2, places, is_repeated)


def _rank_by_progress(total: Tensor, progress: Tensor) -> Tensor:
    """Number the candidates, [B, n]: the best of each progress first, then the second best.

    Among those of one turn, the better score comes first.
    """
    n = total.size(1)
    by_score = total.argsort(dim=1, descending=True, stable=True)  # [B, n]
    # Within one progress, number them by score: sort by progress, and count from its first.
    sorted_progress = progress.gather(1, by_score)  # [B, n]
    by_progress = sorted_progress.argsort(dim=1, descending=True, stable=True)  # [B, n]
    grouped = sorted_progress.gather(1, by_progress)  # [B, n]
    place = torch.arange(n, device=total.device)  # [n]
    is_first = torch.ones_like(grouped, dtype=torch.bool)
    is_first[:, 1:] = grouped[:, 1:] != grouped[:, :-1]
    first = torch.where(is_first, place, 0).cummax(dim=1).values  # [B, n]
    turn = torch.empty_like(grouped).scatter_(1, by_progress, place - first)  # [B, n], by score
    turn = turn.masked_fill(total.gather(1, by_score).isneginf(), n)  # what does not exist: last
    order = turn.argsort(dim=1, stable=True)  # [B, n]
    in_order = by_score.gather(1, order)  # [B, n]
    return torch.empty_like(in_order).scatter_(1, in_order, place.expand_as(in_order))


def _first(total: Tensor, rank: Tensor, k: int, *, below: int) -> tuple[Tensor, Tensor]:
    """Return the scores and places, [B, k], of the k lowest ranks; −∞ if they are not below."""
    ranks, places = rank.topk(k, dim=1, largest=False)
    return total.gather(1, places).masked_fill(ranks >= below, -torch.inf), places
