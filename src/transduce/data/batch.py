"""What a training step sees.

Sentences are padded on the right to the longest of their side, or they lie end to end in one row
that is padded at its end. How they are laid out may change here without touching a model's
mathematics.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.data.batching import Indices, Lengths, Room, deal
from transduce.data.store import Sentences, Store
from transduce.nn.spans import Layout
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID


@dataclass(frozen=True)
class Batch:
    """Source and target ids; tgt_in is tgt_out shifted right by one (Figure 1)."""

    src: Tensor  # [B, S]
    tgt_in: Tensor  # [B, T]
    tgt_out: Tensor  # [B, T]
    src_tokens: int  # real ones
    tgt_tokens: int
    layout: Layout | None = None  # where B is 1 and sentences lie end to end

    @classmethod
    def of(cls, store: Store, sentences: Indices) -> Self:
        """Lay out the named sentences one below the other; every one is ended by EOS."""
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

    @classmethod
    def in_row(cls, store: Store, sentences: Indices, room: Room) -> Self:
        """Lay out the named sentences end to end; every one is ended by EOS."""
        return cls._of_ends(*_ended(store.src, sentences), *_ended(store.tgt, sentences), room)

    @classmethod
    def _of_ends(
        cls,
        src: NDArray[np.int64],
        src_lengths: Indices,
        tgt: NDArray[np.int64],
        tgt_lengths: Indices,
        room: Room,
    ) -> Self:
        """Lay out sentences that lie end to end already, and fill up the row."""
        src_rest, tgt_rest = room.src - src.size, room.tgt - tgt.size
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
            Layout(
                _bounds(src_lengths, tgt_lengths, src_rest),
                _bounds(tgt_lengths, src_lengths, tgt_rest),
            ),
        )

    def split(self, max_tokens: int) -> list[Self]:
        """Cut into batches of at most so many padded tokens on either side, or of one pair."""
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

    def _split_row(self, layout: Layout, max_tokens: int) -> list[Self]:
        if max(self.src.size(1), self.tgt_out.size(1)) <= max_tokens:
            return [self]
        src = _sentences(self.src[0, : self.src_tokens], layout.src)
        tgt = _sentences(self.tgt_out[0, : self.tgt_tokens], layout.tgt)
        src_lengths, tgt_lengths = (np.array([len(ids) for ids in side]) for side in (src, tgt))
        room = Room(self.src.size(1), self.tgt_out.size(1)).cut_to(max_tokens)
        pieces = []
        for row in deal(src_lengths, tgt_lengths, room):
            lengths = src_lengths[row], tgt_lengths[row]
            src_row, tgt_row = (np.concatenate([side[i] for i in row]) for side in (src, tgt))
            fitting = room if room.holds(*lengths) else Room(src_row.size, tgt_row.size)
            pieces.append(self._of_ends(src_row, lengths[0], tgt_row, lengths[1], fitting))
        return pieces

    @property
    def is_one_pair(self) -> bool:
        """Whether it cannot be cut any further: in a row, not even by what fills it up."""
        if self.layout is None:
            return self.src.size(0) == 1
        ends = (int(self.layout.src[1, 0]), int(self.layout.tgt[1, 0]))
        return ends == (self.src.size(1), self.tgt_out.size(1))

    def to(self, device: torch.device) -> Self:
        """Copy to a device, without waiting for it."""
        return self._each(lambda t: t.to(device, non_blocking=True))

    def pinned(self) -> Self:
        """Copy to memory from which a GPU can fetch by itself."""
        return self._each(lambda t: t.pin_memory())

    def _each(self, move: Callable[[Tensor], Tensor]) -> Self:
        src, tgt_in, tgt_out = (move(t) for t in (self.src, self.tgt_in, self.tgt_out))
        layout = self.layout and Layout(move(self.layout.src), move(self.layout.tgt))
        return replace(self, src=src, tgt_in=tgt_in, tgt_out=tgt_out, layout=layout)


def _padded(side: Sentences, sentences: Indices) -> tuple[NDArray[np.int64], int]:
    """Gather sentences into rows, each ended by EOS and filled up with padding."""
    lengths = side.lengths_of(sentences)
    rows = np.full((sentences.size, int(lengths.max(initial=0)) + 1), PAD_ID, dtype=np.int64)
    columns = np.arange(rows.shape[1])
    rows[columns < lengths[:, None]] = _words(side, sentences)
    rows[np.arange(sentences.size), lengths] = EOS_ID
    return rows, int(lengths.sum()) + sentences.size


def _ended(side: Sentences, sentences: Indices) -> tuple[NDArray[np.int64], Indices]:
    """Gather sentences end to end, each ended by EOS; return them with their lengths."""
    lengths = side.lengths_of(sentences).astype(np.int64) + 1
    ends = np.cumsum(lengths)
    row = np.full(int(lengths.sum()), EOS_ID, dtype=np.int64)
    is_word = np.ones(row.size, dtype=np.bool_)
    is_word[ends - 1] = False
    row[is_word] = _words(side, sentences)
    return row, lengths


def _words(side: Sentences, sentences: Indices) -> NDArray[np.unsignedinteger]:
    """Gather sentences end to end.

    All at once: a Python object for each would have Python look for garbage among all its objects
    every hundred batches, for longer than a GPU has work.
    """
    lengths = side.lengths_of(sentences).astype(np.int64)
    shifts = side.ends[sentences] - np.cumsum(lengths)
    words: NDArray[np.unsignedinteger] = side.ids[
        np.arange(lengths.sum()) + np.repeat(shifts, lengths)
    ]
    return words


def _sentences(row: Tensor, bounds: Tensor) -> list[NDArray[np.int64]]:
    """Take a row without what fills it up apart again."""
    starts = np.unique(bounds[0, : row.size(0)].numpy())
    return np.split(row.numpy(), starts[1:])


def _bounds(own: Lengths, others: Lengths, rest: int) -> Tensor:
    """Say for each token where its sentence and that sentence's counterpart start and end.

    After them come so many tokens of an empty sentence.
    """
    own_ends, other_ends = np.cumsum(own), np.cumsum(others)
    bounds = np.stack([own_ends - own, own_ends, other_ends - others, other_ends])
    rows = np.repeat(bounds, own, axis=1)
    empty = np.repeat(bounds[[1, 1, 3, 3], -1:], rest, axis=1)
    return torch.from_numpy(np.concatenate([rows, empty], axis=1).astype(np.int32))
