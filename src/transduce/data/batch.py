"""Batches: the tensors of a training step.

Sentences are padded on the right to the longest of their side, or packed: concatenated in one row
that is padded at its end. The layout may change here without touching a model's mathematics.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.data.batching import Indices, Lengths, RowCapacity, pack_rows
from transduce.data.packed_layout import PackedLayout
from transduce.data.store import Sentences, Store
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID


@dataclass(frozen=True)
class Batch:
    """Source and target ids; tgt_in is tgt_out shifted right by one (Figure 1)."""

    src: Tensor  # [B, S]
    tgt_in: Tensor  # [B, T]
    tgt_out: Tensor  # [B, T]
    src_tokens: int  # without padding
    tgt_tokens: int  # without padding
    layout: PackedLayout | None = None  # of packed sequences; then B is 1

    @classmethod
    def padded(cls, store: Store, sentences: Indices) -> Self:
        """Put each of the sentences into a row of its own, ended by EOS."""
        src, src_tokens = _padded(store.src, sentences)
        tgt, tgt_tokens = _padded(store.tgt, sentences)
        shifted = np.concatenate([np.full((len(tgt), 1), BOS_ID), tgt[:, :-1]], axis=1)
        tgt_in = np.where(shifted == EOS_ID, PAD_ID, shifted)
        return cls(
            torch.from_numpy(src),
            torch.from_numpy(tgt_in),
            torch.from_numpy(tgt),
            src_tokens,
            tgt_tokens,
        )

    @classmethod
    def packed(cls, store: Store, sentences: Indices, capacity: RowCapacity) -> Self:
        """Pack the sentences into one row, each ended by EOS."""
        src, src_lengths = _concatenated(store.src, sentences)
        tgt, tgt_lengths = _concatenated(store.tgt, sentences)
        return cls._packed(src, tgt, lengths=(src_lengths, tgt_lengths), capacity=capacity)

    @classmethod
    def _packed(
        cls,
        src: NDArray[np.int64],
        tgt: NDArray[np.int64],
        *,
        lengths: tuple[Indices, Indices],
        capacity: RowCapacity,
    ) -> Self:
        """Pad concatenated sentences of these lengths, source and target, to the capacity."""
        src_lengths, tgt_lengths = lengths
        src_rest, tgt_rest = capacity.src - src.size, capacity.tgt - tgt.size
        src_row, tgt_row = (
            np.pad(ids, (0, rest), constant_values=PAD_ID)
            for ids, rest in ((src, src_rest), (tgt, tgt_rest))
        )
        tgt_in = np.concatenate(([BOS_ID], tgt_row[:-1]))
        tgt_in[np.cumsum(tgt_lengths)[:-1]] = BOS_ID
        tgt_in[tgt.size :] = PAD_ID
        return cls(
            torch.from_numpy(src_row)[None],
            torch.from_numpy(tgt_in)[None],
            torch.from_numpy(tgt_row)[None],
            src.size,
            tgt.size,
            PackedLayout(
                _bounds(src_lengths, tgt_lengths, src_rest),
                _bounds(tgt_lengths, src_lengths, tgt_rest),
            ),
        )

    def split(self, max_tokens: int) -> list[Self]:
        """Split into batches of at most max_tokens per side, padding included, or of one pair."""
        if self.layout is not None:
            return self._split_row(self.layout, max_tokens)
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

    def _split_row(self, layout: PackedLayout, max_tokens: int) -> list[Self]:
        if max(self.src.size(1), self.tgt_out.size(1)) <= max_tokens:
            return [self]
        src = _sentences(self.src[0, : self.src_tokens], layout.src)
        tgt = _sentences(self.tgt_out[0, : self.tgt_tokens], layout.tgt)
        src_lengths, tgt_lengths = (np.array([len(ids) for ids in side]) for side in (src, tgt))
        capacity = RowCapacity(self.src.size(1), self.tgt_out.size(1)).limited_to(max_tokens)
        parts = []
        for row in pack_rows(src_lengths, tgt_lengths, capacity):
            lengths = src_lengths[row], tgt_lengths[row]
            src_row, tgt_row = (np.concatenate([side[i] for i in row]) for side in (src, tgt))
            fits = capacity.holds(*lengths)
            size = capacity if fits else RowCapacity(src_row.size, tgt_row.size)
            parts.append(self._packed(src_row, tgt_row, lengths=lengths, capacity=size))
        return parts

    @property
    def is_one_pair(self) -> bool:
        """Whether it cannot be split further; a packed row of one pair with padding still can."""
        if self.layout is None:
            return self.src.size(0) == 1
        ends = (int(self.layout.src[1, 0]), int(self.layout.tgt[1, 0]))
        return ends == (self.src.size(1), self.tgt_out.size(1))

    def to(self, device: torch.device) -> Self:
        """Copy to a device asynchronously."""
        return self._each(lambda t: t.to(device, non_blocking=True))

    def pinned(self) -> Self:
        """Copy to pinned memory, from which copies to a GPU are asynchronous."""
        return self._each(lambda t: t.pin_memory())

    def _each(self, move: Callable[[Tensor], Tensor]) -> Self:
        src, tgt_in, tgt_out = (move(t) for t in (self.src, self.tgt_in, self.tgt_out))
        layout = self.layout and PackedLayout(move(self.layout.src), move(self.layout.tgt))
        return replace(self, src=src, tgt_in=tgt_in, tgt_out=tgt_out, layout=layout)


def _padded(side: Sentences, sentences: Indices) -> tuple[NDArray[np.int64], int]:
    """Gather sentences into rows, each ended by EOS and padded; return them and their tokens."""
    lengths = side.lengths_of(sentences)
    rows = np.full((sentences.size, int(lengths.max(initial=0)) + 1), PAD_ID, dtype=np.int64)
    columns = np.arange(rows.shape[1])
    rows[columns < lengths[:, None]] = side.gather(sentences)
    rows[np.arange(sentences.size), lengths] = EOS_ID
    return rows, int(lengths.sum()) + sentences.size


def _concatenated(side: Sentences, sentences: Indices) -> tuple[NDArray[np.int64], Indices]:
    """Concatenate sentences, each ended by EOS; return them and their lengths."""
    lengths = side.lengths_of(sentences).astype(np.int64) + 1
    ends = np.cumsum(lengths)
    row = np.full(int(lengths.sum()), EOS_ID, dtype=np.int64)
    is_text = np.ones(row.size, dtype=np.bool_)
    is_text[ends - 1] = False
    row[is_text] = side.gather(sentences)
    return row, lengths


def _sentences(row: Tensor, bounds: Tensor) -> list[NDArray[np.int64]]:
    """Split a packed row, without its padding, into its sentences."""
    starts = np.unique(bounds[0, : row.size(0)].numpy())
    return np.split(row.numpy(), starts[1:])


def _bounds(own: Lengths, others: Lengths, rest: int) -> Tensor:
    """Return where each token's sentence and its counterpart on the other side start and end.

    `rest` tokens of padding follow, as an empty sentence.
    """
    own_ends, other_ends = np.cumsum(own), np.cumsum(others)
    bounds = np.stack([own_ends - own, own_ends, other_ends - others, other_ends])
    rows = np.repeat(bounds, own, axis=1)
    empty = np.repeat(bounds[[1, 1, 3, 3], -1:], rest, axis=1)
    return torch.from_numpy(np.concatenate([rows, empty], axis=1).astype(np.int32))
