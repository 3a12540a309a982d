"""Sampling: a translation drawn at random, the same for the same seed in any batch."""

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.models.base import Searchable, State
from transduce.search.cancel import raise_if_cancelled
from transduce.search.constraint import Constraint, private_copy
from transduce.search.hypothesis import Hypothesis, log_probabilities
from transduce.text.special_ids import BOS_ID, EOS_ID


@dataclass(frozen=True)
class Sampling:
    """How to sample: from all tokens, or only from the likeliest."""

    temperature: float = 1.0
    top_k: int | None = None  # from this many tokens
    top_p: float = 1.0  # from the fewest tokens whose probabilities add up to at least this
    seed: int = 1

    def __post_init__(self) -> None:
        assert self.temperature > 0, f"temperature={self.temperature}: above 0; or search greedily"
        assert self.top_k is None or self.top_k >= 1, f"top_k={self.top_k}"
        assert 0 < self.top_p <= 1, f"top_p={self.top_p}"


@torch.inference_mode()
def sample(
    model: Searchable[State],
    src: Tensor,
    sampling: Sampling,
    *,
    numbers: list[int],
    max_tokens: Tensor,
    constraint: Constraint | None = None,
) -> list[Hypothesis]:
    """Sample a translation for each sentence of [B, S]; its score is its log-probability.

    A sample has at most max_tokens, [B], ids, EOS included. It depends on the seed and on the
    sentence's own number, not on the other sentences. One that the constraint lets no token follow
    stays unfinished, with a score of −∞.
    """
    limits = max_tokens.to(src.device)  # [B]
    longest, count = int(max_tokens.max()), src.size(0)
    random = _random_numbers(sampling.seed, numbers, longest).to(src.device)  # [B, T]
    state = model.start(model.encode(src), hypotheses=1, max_steps=longest)
    if constraint is not None:
        constraint = private_copy(constraint, count, max_steps=longest, device=src.device)
    position = torch.zeros(1, dtype=torch.long, device=src.device)
    last_ids = torch.full((count, 1), BOS_ID, device=src.device)  # [B, 1]
    rows = torch.arange(count, device=src.device)  # [B], the sentences that are left
    ids: list[list[int]] = [[] for _ in range(count)]
    scores, ended = [0.0] * count, [False] * count
    for step in range(longest):
        raise_if_cancelled()
        logits = model.step(last_ids, state, position=position.fill_(step), reach=step + 1)
        log_p = _log_p(logits, constraint, position)  # [B, V]
        drawn = _draw(log_p, sampling, random[rows, step])  # [B]
        gains = log_p.gather(1, drawn[:, None])[:, 0]  # [B]
        for row, token, gain in zip(*(x.tolist() for x in (rows, drawn, gains)), strict=True):
            scores[row] += gain
            ended[row] = token == EOS_ID and gain > -torch.inf
            if token != EOS_ID and gain > -torch.inf:
                ids[row].append(token)
        continues = (drawn != EOS_ID) & (limits[rows] > step + 1)  # [B]
        if constraint is not None:
            constraint.advance(drawn[:, None], position)
            continues &= gains > -torch.inf
        left = continues.nonzero().squeeze(1)  # [B]
        if left.numel() == 0:
            break
        last_ids, rows = drawn[left, None], rows[left]
        if left.numel() < drawn.numel():
            state = _shrunk(state, left, max_steps=longest, steps=step + 1)
            if constraint is not None:
                constraint = _shrunk(constraint, left, max_steps=longest, steps=step + 1)
    return [Hypothesis(*found) for found in zip(ids, scores, ended, strict=True)]


def _random_numbers(seed: int, numbers: list[int], longest: int) -> Tensor:
    """Draw a number from 0 to 1 for every token of every sentence, each from its own generator."""
    rows = []
    for number in numbers:
        generator = torch.Generator().manual_seed((seed * 1_000_003 + number) % 2**63)
        rows.append(torch.rand(longest, generator=generator, dtype=torch.float64))
    return torch.stack(rows)  # [B, T]


def _log_p(logits: Tensor, constraint: Constraint | None, position: Tensor) -> Tensor:
    """Return log-probabilities of logits, [B, 1, V], as [B, V]; of forbidden tokens −∞."""
    if constraint is None:
        return log_probabilities(logits[:, 0])
    forbidden = ~constraint.allowed(position).expand_as(logits)  # [B, 1, V]
    if constraint.renormalises:
        logits = logits.masked_fill(forbidden, -torch.inf)
    return log_probabilities(logits).masked_fill(forbidden, -torch.inf)[:, 0]


def _draw(log_p: Tensor, sampling: Sampling, random: Tensor) -> Tensor:
    """Return the token at which the sum of the probabilities passes the random number, [B]."""
    p, ids = (log_p / sampling.temperature).softmax(dim=-1).sort(dim=-1, descending=True)
    if sampling.top_k is not None:
        p = p.masked_fill(torch.arange(p.size(1), device=p.device) >= sampling.top_k, 0.0)
    before = p.cumsum(dim=-1) - p  # [B, V]
    p = p.masked_fill(before >= sampling.top_p, 0.0)
    sums = p.double().cumsum(dim=-1)  # [B, V]
    places = (sums <= random[:, None] * sums[:, -1:]).sum(dim=-1, keepdim=True)  # [B, 1]
    return ids.gather(1, places.clamp(max=p.size(1) - 1))[:, 0]


def _shrunk(state: State, rows: Tensor, *, max_steps: int, steps: int) -> State:
    """Copy some sentences to memory of their own."""
    smaller = state.allocate_like(rows.numel(), max_steps=max_steps)
    smaller.copy_from(state, rows, steps=steps)
    return smaller
