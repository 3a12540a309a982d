"""The best continuations where a constraint has to be met step by step: beams divided by progress.

A hypothesis that has written a required phrase is often less likely than one that has not yet. So
the places of a beam are divided among the candidates by their progress, after Post and Vilar
(2018): the best of each degree of progress comes first, then the second best of each, and so on.
Beside the likeliest tokens, each hypothesis is tried with those that the constraint proposes.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from transduce.nn.step_state import HypothesisState
from transduce.search.candidates import likeliest, likeliest_allowed
from transduce.search.constraint import AllOf, Constraint
from transduce.text.special_ids import EOS_ID


@dataclass(frozen=True)
class Permitted:
    """The tokens that may follow each hypothesis, in as few numbers as possible."""

    may_end: Tensor  # [B, k], whether EOS may follow
    only: Tensor | None = None  # [B, k], the one token that may follow; −1: others may
    mask: Tensor | None = None  # broadcasts to [B, k, V]; None: all but EOS


@runtime_checkable
class Steering(Protocol):
    """What a constraint adds to a beam search if some tokens bring it nearer to its end.

    Without it, hypotheses that obey early would lose against those that still have to.
    """

    def permitted(self, position: Tensor) -> Permitted:
        """Return what `allowed` returns, without a mask where none is needed."""
        ...

    @property
    def is_ending(self) -> HypothesisState:
        """[B, k], whether a hypothesis would have ended before, but for what was missing."""
        ...

    def proposals(self) -> Tensor:
        """Return tokens that each hypothesis should be tried with, [B, k, n]; −1: none."""
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
    if isinstance(constraint, Steering):
        permitted = constraint.permitted(position)
    else:
        allowed = constraint.allowed(position).expand_as(logits)  # [B, k, V]
        permitted = Permitted(allowed[:, :, EOS_ID], mask=allowed)
    total, parents, ids = _candidates(
        logits, scores, steering, permitted, renormalise=constraint.renormalises
    )  # [B, n]
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
    logits: Tensor, scores: Tensor, steering: Steering, permitted: Permitted, *, renormalise: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return scores, parents and ids of all candidates, [B, n]: likely and proposed ones.

    Of one hypothesis, k may go on; EOS comes on top of them, whether it is permitted or not.
    """
    k, mask, proposed = scores.size(1), permitted.mask, steering.proposals()  # [B, k, m]
    n = min(k + 2, logits.size(2))
    if mask is None:
        best, ids, normaliser = likeliest(logits, n)  # [B, k, n]
    else:
        best, ids, normaliser = likeliest_allowed(logits, n, mask, renormalise=renormalise)
    if permitted.only is not None:
        proposed = torch.cat([proposed, permitted.only[:, :, None]], dim=2)  # [B, k, m]
    is_valid = (proposed >= 0) & ~_is_repeated(proposed)  # [B, k, m]
    tokens = proposed.clamp(min=0)  # [B, k, m]
    if mask is not None:
        is_valid &= mask.expand_as(logits).gather(2, tokens)
    is_same = is_valid[:, :, :, None] & (proposed[:, :, :, None] == ids[:, :, None])  # [B, k, m, n]
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
