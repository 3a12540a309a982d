"""Beam search as plainly as it can be written: one sentence, no cache, lists of Python."""

import math

import torch

from transduce.decoding.answer import Answer
from transduce.decoding.beam import Beam
from transduce.models.transformer import Transformer
from transduce.text.special_ids import BOS_ID, EOS_ID

Scored = list[tuple[float, list[int]]]


@torch.no_grad()
def naive_search(
    model: Transformer, src: list[int], beam: Beam, limit: int, prefix: list[int]
) -> list[Answer]:
    memory = model.encode(torch.tensor([src]))

    def continued(score: float, ids: list[int]) -> Scored:
        logits = model.decode(memory, torch.tensor([[BOS_ID, *ids]]))[0, -1]
        log_p: list[float] = logits.log_softmax(dim=-1).tolist()
        allowed = [prefix[len(ids)]] if len(ids) < len(prefix) else range(len(log_p))
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
    found = [Answer(ids, score, is_finished=True) for score, ids in finished]
    cut_off = [Answer(ids, s / _penalty(step, beam), is_finished=False) for s, ids in live]
    return [*found, *cut_off][: beam.n_best]


def _is_certain(live: Scored, finished: Scored, beam: Beam, limit: int) -> bool:
    if beam.size == 1 and finished:
        return True
    worst = finished[beam.n_best - 1][0] if len(finished) >= beam.n_best else -math.inf
    return worst >= live[0][0] / _penalty(limit, beam)


def _penalty(length: int, beam: Beam) -> float:
    return float(((5 + length) / 6) ** beam.alpha)
