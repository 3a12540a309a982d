"""What a search finds, and how long it may be."""

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.text.special_ids import PAD_ID

EXTRA_TOKENS = 50
"""How much longer than its source a translation may be (§6.1)."""


@dataclass(frozen=True)
class Answer:
    """A translation as ids, without beginning and end."""

    ids: list[int]
    score: float  # log-probability, divided by the length penalty
    is_finished: bool  # False: it was cut off where its tokens were used up


def log_probabilities(logits: Tensor) -> Tensor:
    """Normalise over the vocabulary, in float32 or finer."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)


def answer_limits(src: Tensor, *, max_positions: int | None = None) -> Tensor:
    """Allow each sentence of [B, S] as many tokens as it has itself, and 50 more (§6.1).

    Never more than the model has positions, where it has a limit.
    """
    limits = (src != PAD_ID).sum(dim=1) + EXTRA_TOKENS  # [B]
    return limits if max_positions is None else limits.clamp(max=max_positions)  # [B]
