"""Scores of given translations: what a model thinks of an answer that it did not choose."""

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.decoding.answer import log_probabilities
from transduce.models.base import Seq2Seq, State
from transduce.text.special_ids import PAD_ID


@dataclass(frozen=True)
class Forced:
    """Natural log-probabilities of given translations."""

    tokens: Tensor  # [B, T], 0 at padding
    lengths: Tensor  # [B], the end counted

    @property
    def sums(self) -> Tensor:
        """Of whole translations, their end included, [B]."""
        return self.tokens.sum(dim=1)


@torch.inference_mode()
def forced_scores(model: Seq2Seq[State], src: Tensor, tgt_in: Tensor, tgt_out: Tensor) -> Forced:
    """Score every token of tgt_out, [B, T], after those before it; the last of each is its end."""
    logits = model.decode(model.encode(src), tgt_in)  # [B, T, V]
    log_p = log_probabilities(logits)  # [B, T, V]
    real = tgt_out != PAD_ID  # [B, T]
    tokens = log_p.gather(2, tgt_out[:, :, None])[:, :, 0]  # [B, T]
    return Forced(tokens.masked_fill(~real, 0.0), real.sum(dim=1))
