"""Greedy search: the best next token, again and again. It knows only the protocol `Searchable`."""

import torch
from torch import Tensor

from transduce.models.base import Searchable, State
from transduce.text.special_ids import BOS_ID, EOS_ID


@torch.inference_mode()
def greedy(model: Searchable[State], src: Tensor, *, max_tokens: Tensor) -> list[list[int]]:
    """Translate each sentence of [B, S] into at most max_tokens, [B], ids without BOS and EOS.

    The model is used as it is: a caller who wants no dropout puts it in eval mode.
    """
    answers: list[list[int]] = [[] for _ in range(src.size(0))]
    limits: list[int] = max_tokens.tolist()
    assert min(limits) >= 1, "a translation is allowed at least one token"
    state = model.start(model.encode(src), max_steps=max(limits))
    last_ids = torch.full((len(answers), 1), BOS_ID, device=src.device)  # [B, 1]
    unfinished = list(range(len(answers)))
    for step in range(max(limits)):
        logits, state = model.step(last_ids, state)
        last_ids = logits.argmax(dim=-1)  # [B, 1]
        rows = []
        for row, token in enumerate(last_ids[:, 0].tolist()):
            if token != EOS_ID:
                answers[unfinished[row]].append(token)
                if step + 1 < limits[unfinished[row]]:
                    rows.append(row)
        if not rows:
            break
        if len(rows) < len(unfinished):
            unfinished = [unfinished[row] for row in rows]
            kept = torch.tensor(rows, device=src.device)  # [B]
            last_ids, state = last_ids[kept], state.keep(kept)
    return answers
