"""Greedy search: as a beam of one, and as plainly as it can be written."""

import torch
from torch import Tensor

from transduce.models.base import Searchable, State
from transduce.models.transformer.model import Transformer
from transduce.search.beam import Beam, beam_search
from transduce.text.special_ids import BOS_ID, EOS_ID


def greedy(model: Searchable[State], src: Tensor, *, max_tokens: Tensor) -> list[list[int]]:
    """Translate each sentence of [B, S] into at most max_tokens, [B], ids."""
    found = beam_search(model, src, Beam(1), max_tokens=max_tokens)
    return [best.ids for [best] in found]


@torch.no_grad()
def best_without_cache(model: Transformer, src: Tensor, limit: int) -> list[int]:
    """Decode the whole prefix of one sentence, [1, S], again for every token."""
    prefix = [BOS_ID]
    while len(prefix) <= limit:
        logits = model.decode(model.encode(src), torch.tensor([prefix]))
        token = int(logits[0, -1].argmax())
        if token == EOS_ID:
            break
        prefix.append(token)
    return prefix[1:]
