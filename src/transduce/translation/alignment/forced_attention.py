"""How the tokens of given translations attend to their sources, for many of them at a time."""

from collections.abc import Sequence

import numpy as np
import torch

from transduce.models.base import Seq2Seq
from transduce.search.cancel import raise_if_cancelled
from transduce.text.markup.aligned import Weights
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID
from transduce.translation.batches import batches_by_length

TokenPair = tuple[Sequence[int], Sequence[int]]
"""The tokens of a source and of its translation, both without EOS."""

BATCH_TOKENS = 1_024
"""Positions in a batch: all heads of all layers are in memory at once."""


def forced_attention(
    model: Seq2Seq, pairs: Sequence[TokenPair], *, device: torch.device
) -> list[Weights]:
    """Return cross-attention for each pair, averaged over heads, [N, T, S + 1].

    If a head was trained to align, it is that head alone, as one layer. Row t belongs to the step
    that chose token t; the last column is EOS.
    """
    found: list[Weights] = [np.zeros((0, 0, 0))] * len(pairs)
    lengths = [max(len(src), len(tgt)) + 1 for src, tgt in pairs]
    for places in batches_by_length(lengths, max_tokens=BATCH_TOKENS, cost=lambda tokens: tokens):
        raise_if_cancelled()
        sources = [[*pairs[place][0], EOS_ID] for place in places]
        shifted = [[BOS_ID, *pairs[place][1]][: max(1, len(pairs[place][1]))] for place in places]
        with torch.inference_mode():
            maps = model.attention_maps(_padded(sources, device), _padded(shifted, device))
            means = _aligning(model, maps.cross).float().mean(dim=2).cpu().numpy()  # [N, B, T, S]
        for row, place in enumerate(places):
            n_src, n_tgt = len(sources[row]), len(pairs[place][1])
            found[place] = means[:, row, :n_tgt, :n_src].copy()
    return found


def _aligning(model: Seq2Seq, cross: torch.Tensor) -> torch.Tensor:
    """Return the head that was trained to align, or all of [N, B, h, T, S]."""
    if model.abilities.alignment_head is None:
        return cross
    layer, head = model.abilities.alignment_head
    return cross[layer : layer + 1, :, head : head + 1]


def _padded(rows: list[list[int]], device: torch.device) -> torch.Tensor:
    longest = max(map(len, rows))
    padded = [row + [PAD_ID] * (longest - len(row)) for row in rows]
    return torch.tensor(padded, device=device)  # [B, S]
