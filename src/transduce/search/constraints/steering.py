"""The best continuations where a constraint has to be met step by step: beams divided by progress.

A hypothesis that has written a required phrase is often less likely than one that has not yet. So
the places of a beam are divided among the candidates by their progress, after Post and Vilar
(2018): the best of each degree of progress comes first, then the second best of each, and so on.
Beside the likeliest tokens, each hypothesis is tried with those that the constraint proposes.

A step has many small tensors, and a GPU needs about as long for a small one as for a large one. So
there, what takes the fewest kernels is fastest: comparing all pairs of a few instead of sorting.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from transduce.nn.step_state import HypothesisState
from transduce.search.candidates import likeliest, likeliest_allowed
from transduce.search.constraint import AllOf, Constraint
from transduce.text.special_ids import EOS_ID

MOST_PAIRS = 1 << 16
"""Of the candidates of a sentence: up to so many are compared on a GPU."""


@dataclass(frozen=True)
class Permitted:
    """The tokens that may follow each hypothesis, in as few numbers as possible."""

    may_end: Tensor  # [B, k], whether EOS may follow
    proposed: Tensor  # [B, k, m], tokens that each hypothesis should be tried with; −1: none
    only: Tensor | None = None  # [B, k], the one token that may follow; −1: others may
    mask: Tensor | None = None  # broadcasts to [B, k, V]; None: all but EOS


@runtime_checkable
class Steering(Protocol):
    """What a constraint adds to a beam search if some tokens bring it nearer to its end.

    Without it, hypotheses that obey early would lose against those that still have to.
    """

    def permitted(self, position: Tensor) -> Permitted:
        """Return what `allowed` returns, without a mask where none is needed, and proposals."""
        ...

    @property
    def is_ending(self) -> HypothesisState:
        """[B, k], whether a hypothesis would have ended before, but for what was missing."""
        ...

    def progress(self, parents: Tensor, ids: Tensor) -> Tensor:
        """Return how far candidates have come, [B, n]: hypotheses, [B, n], and tokens, [B, n]."""
        ...


def steering_of(constraint: Constraint) -> Steering | None:
    """Return the part of a constraint that steers a beam search, if there is one."""
    parts = constraint.constraints if isinstance(constraint, AllOf) else (constraint,)
    for part in parts:
        if isinstance(part, AllOf):
            found = steering_of(part)
            if found is not None:
                return found
        elif isinstance(part, Steering):
            return part
    return None


def steered_continuations(
    logits: Tensor, scores: Tensor, steering: Steering, constraint: Constraint, *, position: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return scores, parents and ids of the chosen continuations, each [B, 2k].

    The first k places are for those that end, the others for the k that go on; where fewer
    exist, the score is −∞. `steering` is the constraint, or a part of it.
    """
    k = scores.size(1)
    permitted = steering.permitted(position)
    if not isinstance(constraint, Steering):
        allowed = constraint.allowed(position).expand_as(logits)  # [B, k, V]
        permitted = Permitted(allowed[:, :, EOS_ID], permitted.proposed, mask=allowed)
    total, parents, ids = _candidates(
        logits, scores, steering, permitted, renormalise=constraint.renormalises
    )  # [B, n]
    rank = rank_by_progress(total, steering.progress(parents, ids))  # [B, n]
    is_end, last = ids == EOS_ID, rank.size(1)  # [B, n]
    # What ends counts if it is among the k first of all.
    ended = rank.masked_fill(~is_end | (rank >= k), last)  # [B, n]
    live = rank.masked_fill(is_end, last)  # [B, n]
    ranks, places = torch.stack([ended, live], dim=1).topk(k, largest=False)  # [B, 2, k]
    places = places.flatten(1)  # [B, 2k]
    chosen = total.gather(1, places).masked_fill(ranks.flatten(1) == last, -torch.inf)  # [B, 2k]
    return chosen, parents.gather(1, places), ids.gather(1, places)


def _candidates(
    logits: Tensor, scores: Tensor, steering: Steering, permitted: Permitted, *, renormalise: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return scores, parents and ids of all candidates, [B, n]: likely and proposed ones.

    Of one hypothesis, k may go on; EOS comes on top of them, whether it is permitted or not.
    """
    k, mask, proposed = scores.size(1), permitted.mask, permitted.proposed  # [B, k, m]
    n = min(k + 2, logits.size(2))
    if mask is None:
        best, ids, normaliser = likeliest(logits, n)  # [B, k, n]
    else:
        best, ids, normaliser = likeliest_allowed(logits, n, mask, renormalise=renormalise)
    if permitted.only is not None:
        proposed = torch.cat([proposed, permitted.only[:, :, None]], dim=2)  # [B, k, m]
    is_valid = (proposed >= 0) & ~is_repeated(proposed)  # [B, k, m]
    tokens = proposed.clamp(min=0)  # [B, k, m]
    if mask is not None:
        is_valid &= mask.expand_as(logits).gather(2, tokens)
    is_same = proposed[:, :, :, None] == ids[:, :, None]  # [B, k, m, n]
    is_new = is_valid & ~is_same.any(dim=3)  # [B, k, m]
    both = torch.cat([best, logits.gather(2, tokens)], dim=2)  # [B, k, n + m]
    every_id = torch.cat([ids, tokens], dim=2)  # [B, k, n + m]
    is_proposed = torch.cat([is_same.any(dim=2), is_new], dim=2)  # [B, k, n + m]
    exists = torch.cat([~best.isneginf(), is_new], dim=2)  # [B, k, n + m]
    would_end = logits[:, :, EOS_ID] >= best[:, :, 0]  # [B, k]
    is_stuck = (would_end | steering.is_ending.tensor) & ~permitted.may_end & is_valid.any(dim=2)
    steering.is_ending.update(steering.is_ending.tensor | is_stuck)
    exists &= _may_follow(every_id, is_proposed, is_stuck, permitted)
    total = scores[:, :, None] + (both - normaliser)
    parents = torch.arange(k, device=scores.device)[:, None].expand_as(total)
    return (
        total.masked_fill(~exists, -torch.inf).flatten(1),
        parents.flatten(1),
        every_id.flatten(1),
    )


def _may_follow(ids: Tensor, is_proposed: Tensor, is_stuck: Tensor, permitted: Permitted) -> Tensor:
    """Return which of the tokens, [B, k, n], may follow their hypotheses.

    A hypothesis that would end, were nothing missing, goes on with what is missing alone: what else
    it can write is text after the end of a sentence, which would take the search to its limit.
    """
    may_follow = permitted.may_end[:, :, None] | (ids != EOS_ID)  # [B, k, n]
    if permitted.only is not None:
        is_free = permitted.only < 0  # [B, k]
        may_follow &= is_free[:, :, None] | (ids == permitted.only[:, :, None])
        is_stuck = is_stuck & is_free  # [B, k]
    return may_follow & (is_proposed | ~is_stuck[:, :, None])


def is_repeated(tokens: Tensor) -> Tensor:
    """Return whether a token, [B, k, m], has occurred before in its row."""
    m = tokens.size(2)
    if tokens.is_cuda and m * m <= MOST_PAIRS:
        return _is_repeated_by_pairs(tokens)
    in_order, places = tokens.sort(dim=2, stable=True)  # [B, k, m]
    repeated = torch.zeros_like(tokens, dtype=torch.bool)
    repeated[:, :, 1:] = in_order[:, :, 1:] == in_order[:, :, :-1]
    return torch.empty_like(repeated).scatter_(2, places, repeated)


def _is_repeated_by_pairs(tokens: Tensor) -> Tensor:
    is_same = tokens[:, :, :, None] == tokens[:, :, None]  # [B, k, m, m]
    return is_same.tril_(-1).any(dim=3)


def rank_by_progress(total: Tensor, progress: Tensor) -> Tensor:
    """Number the candidates, [B, n]: the best of each progress first, then the second best.

    Among those of one turn, the better score comes first; what does not exist, with −∞, is last.
    """
    n = total.size(1)
    if total.is_cuda and n * n <= MOST_PAIRS:
        return _rank_by_pairs(total, progress)
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
    turn = turn.masked_fill(total.gather(1, by_score).isneginf(), n)
    order = turn.argsort(dim=1, stable=True)  # [B, n]
    in_order = by_score.gather(1, order)  # [B, n]
    return torch.empty_like(in_order).scatter_(1, in_order, place.expand_as(in_order))


def _rank_by_pairs(total: Tensor, progress: Tensor) -> Tensor:
    mine, others = total[:, :, None], total[:, None]  # [B, n, 1], [B, 1, n]
    # Of equal scores, the first is better.
    is_better = (others == mine).tril_(-1).logical_or_(others > mine)  # [B, n, n]
    is_same = progress[:, None] == progress[:, :, None]  # [B, n, n]
    turn = is_same.logical_and_(is_better).sum(dim=2)  # [B, n]
    turn = turn.masked_fill(total.isneginf(), total.size(1))
    mine, others = turn[:, :, None], turn[:, None]
    is_before = is_better.logical_and_(others == mine).logical_or_(others < mine)  # [B, n, n]
    return is_before.sum(dim=2)
