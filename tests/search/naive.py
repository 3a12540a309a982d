"""Beam search as plainly as it can be written: one sentence, no cache, lists of Python."""

import math

import torch

from tests.search.constraints import AllowedAfter
from transduce.models.transformer.model import Transformer
from transduce.search.beam import Beam
from transduce.search.hypothesis import Hypothesis
from transduce.text.special_ids import BOS_ID, EOS_ID

Scored = list[tuple[float, list[int]]]


@torch.no_grad()
def naive_search(
    model: Transformer,
    src: list[int],
    beam: Beam,
    *,
    limit: int,
    allowed_after: AllowedAfter | None = None,
    renormalise: bool = False,
) -> list[Hypothesis]:
    """Search for one sentence; of the tokens only those that may follow are looked at."""
    memory = model.encode(torch.tensor([src]))

    def continued(score: float, ids: list[int]) -> Scored:
        logits = model.decode(memory, torch.tensor([[BOS_ID, *ids]]))[0, -1]
        allowed = range(len(logits)) if allowed_after is None else allowed_after(ids)
        summed = logits[list(allowed)] if renormalise else logits
        log_p: list[float] = (logits - summed.logsumexp(dim=0)).tolist()
        return [(score + log_p[token], [*ids, token]) for token in allowed]

    live: Scored = [(0.0, [])]
    finished: Scored = []
    step = 0
    while step < limit and live and not _is_certain(live, finished, beam, limit):
        grown = [one for score, ids in live for one in continued(score, ids)]
        grown = sorted(grown, key=lambda one: -one[0])[: 2 * beam.size]
        step += 1
        for score, ids in grown[: beam.size]:
            if ids[-1] == EOS_ID:
                finished.append((score / _penalty(step, beam), ids[:-1]))
        finished = sorted(finished, key=lambda one: -one[0])[: beam.size]
        live = [one for one in grown if one[1][-1] != EOS_ID][: beam.size]
    found = [Hypothesis(ids, score, is_finished=True) for score, ids in finished]
    cut_off = [Hypothesis(ids, s / _penalty(step, beam), is_finished=False) for s, ids in live]
    return [*found, *cut_off][: beam.n_best]


def _is_certain(live: Scored, finished: Scored, beam: Beam, limit: int) -> bool:
    if beam.size == 1 and finished:
        return True
    worst = finished[beam.n_best - 1][0] if len(finished) >= beam.n_best else -math.inf
    return worst >= live[0][0] / _penalty(limit, beam)


def _penalty(length: int, beam: Beam) -> float:
    return float(((5 + length) / 6) ** beam.alpha)
