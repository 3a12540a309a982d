"""Sampling: a translation drawn by chance, the same for the same seed in any batch."""

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.decoding.answer import Answer, answer_limits, log_probabilities
from transduce.decoding.stop import go_on
from transduce.models.base import Searchable, State
from transduce.text.special_ids import BOS_ID, EOS_ID


@dataclass(frozen=True)
class Sampling:
    """How to draw: from all tokens, or only from the likeliest."""

    temperature: float = 1.0
    top_k: int | None = None  # of so many tokens
    top_p: float = 1.0  # of the fewest tokens that together are at least so likely
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
    max_tokens: Tensor | None = None,
) -> list[Answer]:
    """Draw a translation for each sentence of [B, S]; its score is its log-probability.

    What is drawn follows from the seed and from the sentence's own number, not from its neighbours.
    """
    limits = answer_limits(src) if max_tokens is None else max_tokens.to(src.device)  # [B]
    longest, count = int(limits.max()), src.size(0)
    chances = _chances(sampling.seed, numbers, longest).to(src.device)  # [B, T]
    state = model.start(model.encode(src), hypotheses=1, max_steps=longest)
    position = torch.zeros(1, dtype=torch.long, device=src.device)
    last_ids = torch.full((count, 1), BOS_ID, device=src.device)  # [B, 1]
    sentences = torch.arange(count, device=src.device)
    ids: list[list[int]] = [[] for _ in range(count)]
    scores, ended = [0.0] * count, [False] * count
    for step in range(longest):
        go_on()
        logits = model.step(last_ids, state, position=position.fill_(step), reach=step + 1)
        log_p = log_probabilities(logits[:, 0])  # [B, V]
        drawn = _drawn(log_p, sampling, chances[sentences, step])  # [B]
        gains = log_p.gather(1, drawn[:, None])[:, 0].tolist()
        for sentence, token, gain in zip(sentences.tolist(), drawn.tolist(), gains, strict=True):
            scores[sentence] += gain
            ended[sentence] = token == EOS_ID
            if token != EOS_ID:
                ids[sentence].append(token)
        goes_on = ((drawn != EOS_ID) & (limits[sentences] > step + 1)).nonzero().squeeze(1)  # [B]
        if goes_on.numel() == 0:
            break
        last_ids, sentences = drawn[goes_on, None], sentences[goes_on]
        if goes_on.numel() < drawn.numel():
            smaller = state.room_for(goes_on.numel(), max_steps=longest)
            smaller.take(state, goes_on, steps=step + 1)
            state = smaller
    return [Answer(*found) for found in zip(ids, scores, ended, strict=True)]


def _chances(seed: int, numbers: list[int], longest: int) -> Tensor:
    """Draw a number from 0 to 1 for every token of every sentence, each from its own source."""
    rows = []
    for number in numbers:
        source = torch.Generator().manual_seed((seed * 1_000_003 + number) % 2**63)
        rows.append(torch.rand(longest, generator=source, dtype=torch.float64))
    return torch.stack(rows)  # [B, T]


def _drawn(log_p: Tensor, sampling: Sampling, chances: Tensor) -> Tensor:
    """Choose the token at which the sum of the probabilities passes the chance, [B]."""
    p, ids = (log_p / sampling.temperature).softmax(dim=-1).sort(dim=-1, descending=True)
    if sampling.top_k is not None:
        p = p.masked_fill(torch.arange(p.size(1), device=p.device) >= sampling.top_k, 0.0)
    before = p.cumsum(dim=-1) - p  # [B, V]
    p = p.masked_fill(before >= sampling.top_p, 0.0)
    sums = p.double().cumsum(dim=-1)  # [B, V]
    places = (sums <= chances[:, None] * sums[:, -1:]).sum(dim=-1, keepdim=True)  # [B, 1]
    return ids.gather(1, places.clamp(max=p.size(1) - 1))[:, 0]
