"""Greedy search in which the model verifies drafts: the same output in fewer passes.

A drafter proposes the next j tokens. The model reads the last token and these in one pass, and so
knows what it would have chosen itself after each. The proposals that equal its own choices are
kept, and its choice after the last of them too; the rest is taken back (Stern et al. 2018;
Leviathan et al. 2023, without sampling). Every token of the output is the model's own choice after
the tokens before it: what is proposed changes the number of passes, and nothing else.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transduce.models.base import MultiTokenSearchable
from transduce.search.beam import Beam
from transduce.search.cancel import raise_if_cancelled
from transduce.search.candidates import best_continuations
from transduce.search.hypothesis import Hypothesis
from transduce.search.speculative.drafter import Drafter
from transduce.text.special_ids import BOS_ID, EOS_ID

DRAFT_TOKENS = 5
"""The most tokens that are drafted for one pass."""


@torch.inference_mode()
def speculative_search(
    model: MultiTokenSearchable[Any],
    src: Tensor,
    drafter: Drafter,
    *,
    max_tokens: int,
    alpha: float = 0.6,
    draft_tokens: int = DRAFT_TOKENS,
) -> list[Hypothesis]:
    """Translate one sentence, [1, S]: return what `beam_search` does with a beam of one.

    The tokens differ only where two have the same score but for rounding: a pass over several
    tokens rounds otherwise than one over a single token, as a batch does.
    """
    assert src.size(0) == 1, "sentences of a batch would keep different numbers of proposals"
    if max_tokens < 1:
        return []
    reader = _Reader(model, model.start(model.encode(src), hypotheses=1, max_steps=max_tokens))
    draft = drafter.start(src, max_steps=max_tokens)
    ids: list[int] = []
    log_p, is_finished = 0.0, False
    while len(ids) < max_tokens and not is_finished:
        raise_if_cancelled()
        proposed = draft.propose(ids, min(draft_tokens, max_tokens - len(ids) - 1))  # [j]
        for token, gain in reader.choices(ids, proposed.to(src.device)):
            log_p += gain
            is_finished = token == EOS_ID
            if is_finished:
                break
            ids.append(token)
    if not log_p > -torch.inf:  # NaN, as in a beam search, is no hypothesis
        return []
    length = torch.tensor(len(ids) + is_finished)
    score = log_p / float(Beam(1, alpha).penalty(length))
    return [Hypothesis(ids, score, is_finished)]


@dataclass(frozen=True)
class _Reader:
    """The model and its state of one sentence."""

    model: MultiTokenSearchable[Any]
    state: Any

    def choices(self, ids: list[int], proposed: Tensor) -> list[tuple[int, float]]:
        """Return the tokens that the model chooses next, each with its log-probability.

        It has read all ids but the last. There is one token, and one more for each of the
        proposals, [j], that it chooses too, up to the first that it does not.
        """
        last = proposed.new_tensor([ids[-1] if ids else BOS_ID])
        read = torch.cat([last, proposed])[None]  # [1, T]
        logits = self.model.multi_token_step(
            read,
            self.state,
            position=last.new_tensor([len(ids)]),
            reach=len(ids) + read.size(1),
        )  # [1, T, V]
        # The function of greedy search, so that equal scores give the same token.
        each = logits.transpose(0, 1)  # [T, 1, V]
        nothing = torch.zeros(each.shape[:2], device=each.device)  # [T, 1]
        log_p, _, chosen = best_continuations(each, nothing, 2)  # [T, 2]
        agrees = chosen[:-1, 0] == proposed  # [j]
        kept = 1 + int(agrees.cumprod(0).sum())
        return list(zip(chosen[:kept, 0].tolist(), log_p[:kept, 0].tolist(), strict=True))
