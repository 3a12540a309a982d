"""Forced scores: the log-probabilities of given translations, token by token."""

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.models.base import Seq2Seq
from transduce.search.hypothesis import log_probabilities
from transduce.text.special_ids import PAD_ID


@dataclass(frozen=True)
class ForcedScores:
    """Natural log-probabilities of given translations."""

    tokens: Tensor  # [B, T], 0 at padding
    lengths: Tensor  # [B], EOS included

    @property
    def sums(self) -> Tensor:
        """Of whole translations, EOS included, [B]."""
        return self.tokens.sum(dim=1)


@torch.inference_mode()
def forced_scores(model: Seq2Seq, src: Tensor, tgt_in: Tensor, tgt_out: Tensor) -> ForcedScores:
    """Score every token of tgt_out, [B, T], after those before it; each row ends with EOS."""
    logits = model.decode(model.encode(src), tgt_in)  # [B, T, V]
    log_p = log_probabilities(logits)  # [B, T, V]
    real = tgt_out != PAD_ID  # [B, T]
    tokens = log_p.gather(2, tgt_out[:, :, None])[:, :, 0]  # [B, T]
    return ForcedScores(tokens.masked_fill(~real, 0.0), real.sum(dim=1))
