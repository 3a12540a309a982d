"""Batches of pairs as grids: a cell for each source token and each target token."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.data.alignment.pair_table import Keys, pair_keys
from transduce.data.encoding.side import Side
from transduce.text.special_ids import PAD_ID

NULL_ID = PAD_ID
"""Stands before every sentence: what a token that translates nothing is aligned with."""
BATCH_CELLS = 1 << 20
MAX_PAIR_CELLS = 1 << 20
"""A pair with more cells is not aligned: it would need too much memory."""
MAX_SRC_TOKENS = 2**16 - 1
"""A pair with a longer source is not aligned either: links are numbers of two bytes."""

Cells = NDArray[np.float32]


@dataclass(frozen=True)
class Grids:
    """The cells of B pairs, padded; row 0 and column 0 are for what is aligned with nothing."""

    pairs: NDArray[np.int64]  # [B], their numbers
    keys: Keys  # [B, S + 1, T + 1]
    near: Cells  # [B, S + 1, T + 1], how near a cell is to the diagonal; 0 outside the text
    src_real: NDArray[np.bool_]  # [B, S + 1, 1]
    tgt_real: NDArray[np.bool_]  # [B, 1, T + 1]


def cells_of(src: NDArray[np.int64], tgt: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of cells of pairs of these lengths."""
    cells: NDArray[np.int64] = (src + 1) * (tgt + 1)
    return cells


def batches_of_grids(src: Side, tgt: Side, *, diagonal: float) -> Iterator[Grids]:
    """Stream the grids of all pairs that can be aligned, those of similar lengths together."""
    cells = cells_of(src.lengths, tgt.lengths)
    fit = (src.lengths > 0) & (tgt.lengths > 0) & (cells <= MAX_PAIR_CELLS)
    fit &= src.lengths <= MAX_SRC_TOKENS
    order = np.lexsort((tgt.lengths, src.lengths))
    order = order[fit[order]]
    starts = [np.cumsum(side.lengths) - side.lengths for side in (src, tgt)]
    for pairs in _grouped(order, src.lengths, tgt.lengths):
        rows = [_rows(side, start, pairs) for side, start in zip((src, tgt), starts, strict=True)]
        yield _grids(pairs, *rows[0], *rows[1], diagonal=diagonal)


def _grouped(
    order: NDArray[np.int64], src: NDArray[np.int64], tgt: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """Cut the order where the padded cells of a batch would be too many."""
    first, most_src, most_tgt = 0, 0, 0
    for place, (n_src, n_tgt) in enumerate(
        zip(src[order].tolist(), tgt[order].tolist(), strict=True)
    ):
        most_src, most_tgt = max(most_src, n_src), max(most_tgt, n_tgt)
        if (place + 1 - first) * (most_src + 1) * (most_tgt + 1) > BATCH_CELLS and place > first:
            yield order[first:place]
            first, most_src, most_tgt = place, n_src, n_tgt
    if first < order.size:
        yield order[first:]


def _rows(
    side: Side, starts: NDArray[np.int64], pairs: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the ids of some sentences after NULL, padded, and their lengths."""
    lengths = side.lengths[pairs]
    columns = np.arange(int(lengths.max()))
    is_text = columns < lengths[:, None]
    rows = np.full((pairs.size, columns.size + 1), NULL_ID, dtype=np.int64)
    rows[:, 1:][is_text] = side.ids[(starts[pairs][:, None] + columns)[is_text]]
    return rows, lengths


def _grids(
    pairs: NDArray[np.int64],
    src: NDArray[np.int64],
    src_lengths: NDArray[np.int64],
    tgt: NDArray[np.int64],
    tgt_lengths: NDArray[np.int64],
    *,
    diagonal: float,
) -> Grids:
    rows, columns = np.arange(src.shape[1]), np.arange(tgt.shape[1])
    src_real = (rows <= src_lengths[:, None])[:, :, None]
    tgt_real = (columns <= tgt_lengths[:, None])[:, None, :]
    src_share = (rows / src_lengths[:, None]).astype(np.float32)[:, :, None]
    tgt_share = (columns / tgt_lengths[:, None]).astype(np.float32)[:, None, :]
    near = np.exp(np.float32(-diagonal) * np.abs(src_share - tgt_share))
    near *= src_real & tgt_real
    near[:, 0] = near[:, :, 0] = 0
    keys = pair_keys(src[:, :, None], tgt[:, None, :])
    return Grids(pairs, keys, near, src_real, tgt_real)
