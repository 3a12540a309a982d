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

NO_LINK = -1


@dataclass(frozen=True)
class Batch:
    """Source and target ids; tgt_in is tgt_out shifted right by one (Figure 1)."""

    src: Tensor  # [B, S]
    tgt_in: Tensor  # [B, T]
    tgt_out: Tensor  # [B, T]
    src_tokens: int  # without padding
    tgt_tokens: int  # without padding
    layout: PackedLayout | None = None  # of packed sequences; then B is 1
    links: Tensor | None = None
    """For each target token the column of the source token that it translates, [B, T]; -1: none."""

    @classmethod
    def padded(cls, store: Store, sentences: Indices) -> Self:
        """Put each of the sentences into a row of its own, ended by EOS."""
        src, src_tokens = _padded(store.src, sentences, store.tags_of("src", sentences))
        tgt, tgt_tokens = _padded(store.tgt, sentences, store.tags_of("tgt", sentences))
        shifted = np.concatenate([np.full((len(tgt), 1), BOS_ID), tgt[:, :-1]], axis=1)
        tgt_in = np.where(shifted == EOS_ID, PAD_ID, shifted)
        links = None
        if store.links is not None:
            links = np.full(tgt.shape, NO_LINK, dtype=np.int64)
            links[(tgt != PAD_ID) & (tgt != EOS_ID)] = _from_0(store.links.gather(sentences))
        return cls(
            torch.from_numpy(src),
            torch.from_numpy(tgt_in),
            torch.from_numpy(tgt),
            src_tokens,
            tgt_tokens,
            links=None if links is None else torch.from_numpy(links),
        )

    @classmethod
    def packed(cls, store: Store, sentences: Indices, capacity: RowCapacity) -> Self:
        """Pack the sentences into one row, each ended by EOS."""
        src, src_lengths = _concatenated(store.src, sentences, store.tags_of("src", sentences))
        tgt, tgt_lengths = _concatenated(store.tgt, sentences, store.tags_of("tgt", sentences))
        links = None
        if store.links is not None:
            links = np.full(tgt.size, NO_LINK, dtype=np.int64)
            links[_is_text(tgt_lengths)] = _from_0(store.links.gather(sentences))
        lengths = src_lengths, tgt_lengths
        return cls._packed(src, tgt, links, lengths=lengths, capacity=capacity)

    @classmethod
    def _packed(
        cls,
        src: NDArray[np.int64],
        tgt: NDArray[np.int64],
        links: NDArray[np.int64] | None,
        *,
        lengths: tuple[Indices, Indices],
        capacity: RowCapacity,
    ) -> Self:
        """Pad concatenated sentences of these lengths, source and target, to the capacity.

        Links are numbers of tokens in their sentence.
        """
        src_lengths, tgt_lengths = lengths
        src_rest, tgt_rest = capacity.src - src.size, capacity.tgt - tgt.size
        src_row, tgt_row = (
            np.pad(ids, (0, rest), constant_values=PAD_ID)
            for ids, rest in ((src, src_rest), (tgt, tgt_rest))
        )
        tgt_in = np.concatenate(([BOS_ID], tgt_row[:-1]))
        tgt_in[np.cumsum(tgt_lengths)[:-1]] = BOS_ID
        tgt_in[tgt.size :] = PAD_ID
        if links is not None:
            starts = np.repeat(np.cumsum(src_lengths) - src_lengths, tgt_lengths)
            links = np.where(links == NO_LINK, NO_LINK, links + starts)
            links = np.pad(links, (0, tgt_rest), constant_values=NO_LINK)
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
            None if links is None else torch.from_numpy(links)[None],
        )

    def split(self, max_tokens: int) -> list[Self]:
        """Split into batches of at most max_tokens per side, padding included, or of one pair."""
        if self.layout is not None:
            return self._split_row(self.layout, max_tokens)
        longest = max(self.src.size(1), self.tgt_out.size(1))
        count = max(1, max_tokens // longest)
        if count >= self.src.size(0):
            return [self]
        starts = range(0, self.src.size(0), count)
        return [self._rows(slice(start, start + count)) for start in starts]

    def _rows(self, rows: slice) -> Self:
        """Return some of the sentences of a padded batch."""
        src, tgt_out = self.src[rows], self.tgt_out[rows]
        return replace(
            self,
            src=src,
            tgt_in=self.tgt_in[rows],
            tgt_out=tgt_out,
            src_tokens=int((src != PAD_ID).sum()),
            tgt_tokens=int((tgt_out != PAD_ID).sum()),
            links=None if self.links is None else self.links[rows],
        )

    def _split_row(self, layout: PackedLayout, max_tokens: int) -> list[Self]:
        if max(self.src.size(1), self.tgt_out.size(1)) <= max_tokens:
            return [self]
        src = _sentences(self.src[0, : self.src_tokens], layout.src)
        tgt = _sentences(self.tgt_out[0, : self.tgt_tokens], layout.tgt)
        links = self._links_by_sentence(layout)
        src_lengths, tgt_lengths = (np.array([len(ids) for ids in side]) for side in (src, tgt))
        capacity = RowCapacity(self.src.size(1), self.tgt_out.size(1)).limited_to(max_tokens)
        parts = []
        for row in pack_rows(src_lengths, tgt_lengths, capacity):
            lengths = src_lengths[row], tgt_lengths[row]
            src_row, tgt_row = (np.concatenate([side[i] for i in row]) for side in (src, tgt))
            fits = capacity.holds(*lengths)
            size = capacity if fits else RowCapacity(src_row.size, tgt_row.size)
            own = None if links is None else np.concatenate([links[i] for i in row])
            parts.append(self._packed(src_row, tgt_row, own, lengths=lengths, capacity=size))
        return parts

    def _links_by_sentence(self, layout: PackedLayout) -> list[NDArray[np.int64]] | None:
        """Return the links of each sentence of a packed row, as numbers of its tokens."""
        if self.links is None:
            return None
        own = torch.where(self.links[0] < 0, NO_LINK, self.links[0] - layout.tgt[2])
        return _sentences(own[: self.tgt_tokens], layout.tgt)

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
        links = None if self.links is None else move(self.links)
        return replace(self, src=src, tgt_in=tgt_in, tgt_out=tgt_out, layout=layout, links=links)


def _padded(
    side: Sentences, sentences: Indices, tags: Indices | None
) -> tuple[NDArray[np.int64], int]:
    """Gather sentences into rows, each after its tag, ended by EOS and padded; and count tokens."""
    lengths = side.lengths_of(sentences) + (tags is not None)
    rows = np.full((sentences.size, int(lengths.max(initial=0)) + 1), PAD_ID, dtype=np.int64)
    is_text = np.arange(rows.shape[1]) < lengths[:, None]
    if tags is not None:
        is_text[:, 0] = False
        rows[:, 0] = tags
    rows[is_text] = side.gather(sentences)
    rows[np.arange(sentences.size), lengths] = EOS_ID
    return rows, int(lengths.sum()) + sentences.size


def _concatenated(
    side: Sentences, sentences: Indices, tags: Indices | None
) -> tuple[NDArray[np.int64], Indices]:
    """Concatenate sentences, each after its tag and ended by EOS; return them and their lengths."""
    lengths = side.lengths_of(sentences).astype(np.int64) + 1 + (tags is not None)
    ends = np.cumsum(lengths)
    row = np.full(int(lengths.sum()), EOS_ID, dtype=np.int64)
    is_text = np.ones(row.size, dtype=np.bool_)
    is_text[ends - 1] = False
    if tags is not None:
        is_text[ends - lengths] = False
        row[ends - lengths] = tags
    row[is_text] = side.gather(sentences)
    return row, lengths


def _is_text(lengths: Indices) -> NDArray[np.bool_]:
    """Return which tokens of concatenated sentences of these lengths are not EOS, their last."""
    is_text = np.ones(int(lengths.sum()), dtype=np.bool_)
    is_text[np.cumsum(lengths) - 1] = False
    return is_text


def _from_0(links: NDArray[np.unsignedinteger]) -> NDArray[np.int64]:
    """Return links as columns; in a store they count from 1, and 0 is none."""
    return links.astype(np.int64) - 1


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
