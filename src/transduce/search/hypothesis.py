"""What a search finds: hypotheses and their scores."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Hypothesis:
    """A translation as ids, without BOS and EOS."""

    ids: list[int]
    score: float  # log-probability, divided by the length penalty
    is_finished: bool  # False: it was cut off at its maximum length


def log_probabilities(logits: Tensor) -> Tensor:
    """Normalise over the vocabulary, in float32 or finer."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
