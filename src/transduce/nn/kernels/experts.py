"""Products of rows with the matrices of their experts, on a CUDA device.

The rows are sorted by expert, and only the device knows how many each one has. There are as many
programs as any distribution could need; each finds its own expert, or has nothing to do.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor


class ProductTile(NamedTuple):
    """The rows and columns of the result that a program computes, and how it goes about it."""

    rows: int
    columns: int
    depth: int
    num_warps: int
    num_stages: int


TILES = {
    0: ProductTile(16, 64, 128, 4, 4),
    32: ProductTile(64, 64, 64, 4, 4),
    512: ProductTile(128, 128, 64, 8, 3),
}
"""By the least number of rows for each expert, in 16 bits."""
FLOAT32 = ProductTile(32, 64, 32, 4, 3)


def grouped_linear(rows: Tensor, w: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    """Return x W_e + b_e for rows sorted by expert; those of expert e end before ends[e]."""
    (count, d_in), (experts, _, d_out) = rows.shape, w.shape
    output = rows.new_empty(count, d_out)
    if rows.dtype == torch.float32:
        tile = FLOAT32
    else:
        tile = next(
            TILES[least] for least in sorted(TILES, reverse=True) if count >= least * experts
        )
    grid = (triton.cdiv(count, tile.rows) + experts, triton.cdiv(d_out, tile.columns))
    _kernel[grid](
        rows.contiguous(),
        w.contiguous(),
        b.contiguous(),
        ends,
        output,
        d_in,
        d_out,
        experts=experts,
        **tile._asdict(),
    )
    return output


@triton.jit
def _kernel(
    x_pointer,
    w_pointer,
    b_pointer,
    ends_pointer,
    output_pointer,
    d_in,
    d_out,
    experts: tl.constexpr,
    rows: tl.constexpr,
    columns: tl.constexpr,
    depth: tl.constexpr,
):
    """Compute one tile of one expert's rows."""
    tile = tl.program_id(0)
    expert, first, end = 0, 0, 0
    tiles_before, start = 0, 0
    for e in range(experts):
        stop = tl.load(ends_pointer + e).to(tl.int32)
        tiles = tl.cdiv(stop - start, rows)
        is_mine = (tile >= tiles_before) & (tile < tiles_before + tiles)
        expert = tl.where(is_mine, e, expert)
        first = tl.where(is_mine, start + (tile - tiles_before) * rows, first)
        end = tl.where(is_mine, stop, end)
        tiles_before += tiles
        start = stop
    if first < end:
        at_row = (first + tl.arange(0, rows)).to(tl.int64)
        at_column = tl.program_id(1) * columns + tl.arange(0, columns)
        w_pointer += expert.to(tl.int64) * d_in * d_out  # type: ignore[attr-defined]
        total = tl.zeros([rows, columns], tl.float32)
        for begin in range(0, d_in, depth):
            at_depth = begin + tl.arange(0, depth)
            x = tl.load(
                x_pointer + at_row[:, None] * d_in + at_depth,
                mask=(at_row < end)[:, None] & (at_depth < d_in),
                other=0.0,
            )
            w = tl.load(
                w_pointer + at_depth[:, None] * d_out + at_column,
                mask=(at_depth < d_in)[:, None] & (at_column < d_out),
                other=0.0,
            )
            total = tl.dot(x, w, total, input_precision="ieee")
        b = tl.load(b_pointer + expert * d_out + at_column, mask=at_column < d_out, other=0.0)
        total += b.to(tl.float32)
        tl.store(
            output_pointer + at_row[:, None] * d_out + at_column,
            total.to(output_pointer.dtype.element_ty),
            mask=(at_row < end)[:, None] & (at_column < d_out),
        )
