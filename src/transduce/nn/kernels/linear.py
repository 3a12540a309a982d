"""The gradient of max(0, x W + b) down to the product, in one pass, on a CUDA device."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor


class GradientTile(NamedTuple):
    """The rows and columns that a program reads at a time, how often, and with how many warps."""

    rows: int
    columns: int
    turns: int
    num_warps: int


TILE = GradientTile(8, 256, 16, 2)


def relu_gradient(d_output: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient of x W + b, and of b, from that of its positive part."""
    d_inner, parts = _relu_gradient(d_output, output)
    return d_inner, parts.sum(dim=0)


@torch.library.custom_op("transduce::relu_gradient", mutates_args=())
def _relu_gradient(d_output: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient, and its sums over parts of the rows."""
    d_output, output = d_output.contiguous(), output.contiguous()
    d_inner, parts = _allocate(output)
    count, width = output.shape
    _kernel[(parts.size(0), triton.cdiv(width, TILE.columns))](
        d_output, output, d_inner, parts, count, width, **TILE._asdict()
    )
    return d_inner, parts


@_relu_gradient.register_fake
def _(_d_output: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
    return _allocate(output)


def _allocate(output: Tensor) -> tuple[Tensor, Tensor]:
    count, width = output.shape
    programs = -(-count // (TILE.rows * TILE.turns))
    return output.new_empty(count, width), output.new_empty(programs, width, dtype=torch.float32)


@triton.jit
def _kernel(
    d_output_pointer,
    output_pointer,
    d_inner_pointer,
    parts_pointer,
    count,
    width,
    rows: tl.constexpr,
    columns: tl.constexpr,
    turns: tl.constexpr,
):
    program = tl.program_id(0)
    column = tl.program_id(1) * columns + tl.arange(0, columns)
    is_column = column < width
    sums = tl.zeros([rows, columns], tl.float32)
    for turn in range(turns):
        row = (program * turns + turn) * rows + tl.arange(0, rows)
        at = row[:, None].to(tl.int64) * width + column[None, :]
        mask = (row < count)[:, None] & is_column[None, :]
        output = tl.load(output_pointer + at, mask=mask, other=0.0)
        d_output = tl.load(d_output_pointer + at, mask=mask, other=0.0)
        d_inner = tl.where(output > 0, d_output, 0.0)
        tl.store(d_inner_pointer + at, d_inner, mask=mask)
        sums += d_inner.to(tl.float32)
    tl.store(parts_pointer + program * width + column, tl.sum(sums, 0), mask=is_column)
