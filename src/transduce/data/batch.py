"""What a training step sees.

Sentences are padded on the right to the longest of their side. How they are laid out may change
here without touching a model's mathematics.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.data.batching import Indices
from transduce.data.store import Sentences, Store
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID


@dataclass(frozen=True)
class Batch:
    """Source and target ids; tgt_in is tgt_out shifted right by one (Figure 1)."""

    src: Tensor  # [B, S]
    tgt_in: Tensor  # [B, T]
    tgt_out: Tensor  # [B, T]
    src_tokens: int  # real ones
    tgt_tokens: int

    @classmethod
    def of(cls, store: Store, sentences: Indices) -> Self:
        """Lay out the named sentences; every one is ended by EOS."""
        src, src_tokens = _padded(store.src, sentences)
        tgt, tgt_tokens = _padded(store.tgt, sentences)
        begun = np.concatenate([np.full((len(tgt), 1), BOS_ID), tgt[:, :-1]], axis=1)
        tgt_in = np.where(begun == EOS_ID, PAD_ID, begun)
        return cls(
            torch.from_numpy(src),
            torch.from_numpy(tgt_in),
            torch.from_numpy(tgt),
            src_tokens,
            tgt_tokens,
        )

    def split(self, max_tokens: int) -> list[Self]:
        """Cut into batches of at most so many padded tokens on either side, or of one sentence."""
        longest = max(self.src.size(1), self.tgt_out.size(1))
        count = max(1, max_tokens // longest)
        if count >= self.src.size(0):
            return [self]
        sides = (torch.split(t, count) for t in (self.src, self.tgt_in, self.tgt_out))
        return [
            replace(
                self,
                src=src,
                tgt_in=tgt_in,
                tgt_out=tgt_out,
                src_tokens=int((src != PAD_ID).sum()),
                tgt_tokens=int((tgt_out != PAD_ID).sum()),
            )
            for src, tgt_in, tgt_out in zip(*sides, strict=True)
        ]

    def to(self, device: torch.device) -> Self:
        """Copy to a device, without waiting for it."""
        src, tgt_in, tgt_out = (
            t.to(device, non_blocking=True) for t in (self.src, self.tgt_in, self.tgt_out)
        )
        return replace(self, src=src, tgt_in=tgt_in, tgt_out=tgt_out)

    def pinned(self) -> Self:
        """Copy to memory from which a GPU can fetch by itself."""
        src, tgt_in, tgt_out = (t.pin_memory() for t in (self.src, self.tgt_in, self.tgt_out))
        return replace(self, src=src, tgt_in=tgt_in, tgt_out=tgt_out)


def _padded(side: Sentences, sentences: Indices) -> tuple[NDArray[np.int64], int]:
    """Gather sentences into rows, each ended by EOS and filled up with padding."""
    ends = side.ends[sentences]
    lengths = side.lengths_of(sentences)
    starts = ends - lengths
    rows = np.full((sentences.size, int(lengths.max(initial=0)) + 1), PAD_ID, dtype=np.int64)
    columns = np.arange(rows.shape[1])
    words = [side.ids[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    rows[columns < lengths[:, None]] = np.concatenate(words) if words else []
    rows[np.arange(sentences.size), lengths] = EOS_ID
    return rows, int(lengths.sum()) + sentences.size
