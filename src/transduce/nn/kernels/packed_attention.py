"""Attention within packed sentences and its gradient, on a CUDA device.

torch's kernels give each head of a sentence a tile of its own, most of which a sentence of thirty
tokens leaves empty. Here a tile is a block of neighbouring queries, of whichever sentences, and it
reads only the keys from the first to the last that any of them may attend to.

Arguments that are None compile to nothing: attention without a term or window pays for neither.
"""

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from transduce.nn.mixers.key_ranges import KeyRanges
from transduce.nn.mixers.positions import ScoreTerm


class Tile(NamedTuple):
    """How many queries and keys a program holds at a time, and with how many warps."""

    queries: int
    keys: int
    num_warps: int
    num_stages: int


TILE, GRADIENT_TILE = Tile(64, 32, 4, 3), Tile(16, 16, 1, 3)
"""The fastest of a dozen on an H200, with sentences of 34 tokens on average."""
SMALL_TILE = Tile(16, 16, 1, 1)
"""For float32, which no tensor core multiplies exactly: a large tile takes minutes to compile. And
for wide heads, of which a large tile is more than a multiprocessor can hold."""
WIDE = 128
GRADIENT_ROWS = 64
"""Rows over which the gradient of a score table is spread that all queries share. Query i adds to
row i % 64: the queries of a tile then add to different addresses."""


def attend_packed(
    packed: list[Tensor],
    ranges: KeyRanges,
    *,
    causal: bool,
    term: ScoreTerm | None = None,
    window: int | None = None,
) -> Tensor:  # [T, h, d_v]
    """Return softmax(q k^T / sqrt(d_k) + term) v over each query's keys; 0 where it has none.

    Queries [T, h, d_k], keys [S, h, d_k] and values [S, h, d_v] may lie side by side in one tensor
    [T, 3, h, d_k], or keys and values in one [S, 2, h, d_k], or each alone, [T, 1, h, d_k]. A term
    and a window are for self-attention, where distances in the row are distances in a sentence.
    """
    bounds = (ranges.first, ranges.end, ranges.seen_first, ranges.seen_end)
    table = None if term is None else term.table.squeeze(0)  # [h, T, 2*max_distance+1]
    context: Tensor = _attend(packed, table, *bounds, causal, window)[0]
    return context


@torch.library.custom_op("transduce::attend_packed", mutates_args=())
def _attend(
    packed: list[Tensor],
    table: Tensor | None,
    first: Tensor,
    end: Tensor,
    seen_first: Tensor,  # noqa: ARG001 - for the gradient
    seen_end: Tensor,  # noqa: ARG001
    causal: bool,
    window: int | None,
) -> tuple[Tensor, Tensor]:
    """Return the context, and the logarithm of each softmax's sum for the gradient."""
    q, k, v = _unpacked(packed)
    out, log_sums = _allocate_outputs(packed)
    tile = _tile(q, v, TILE)
    tensors = (q, k, v, out)
    _forward[(triton.cdiv(q.size(0), tile.queries), q.size(1))](
        *tensors,
        *(log_sums, first, end),
        q.size(0),
        1 / math.sqrt(q.size(2)),
        *_strides(*tensors),
        *_table_arguments(table),
        **_shape(q, v, tile, causal=causal, window=window),
    )
    return out, log_sums


@_attend.register_fake
def _(packed: list[Tensor], *_: object) -> tuple[Tensor, Tensor]:
    return _allocate_outputs(packed)


@torch.library.custom_op("transduce::attend_packed_gradient", mutates_args=())
def _attend_gradient(
    d_out: Tensor,  # [T, h, d_v]
    out: Tensor,  # [T, h, d_v]
    log_sums: Tensor,  # [h, T]
    first: Tensor,
    end: Tensor,
    seen_first: Tensor,
    seen_end: Tensor,
    packed: list[Tensor],
    table: Tensor | None,
    causal: bool,
    window: int | None,
    needs_table: bool,
) -> list[Tensor]:
    """Return the gradients of `packed`, and of the table if that needs one."""
    gradients = _allocate_gradients(packed, table if needs_table else None)
    (q, k, v), (d_q, d_k, d_v) = _unpacked(packed), _unpacked(gradients[: len(packed)])
    deltas = torch.empty_like(log_sums)
    tile = _tile(q, v, GRADIENT_TILE)
    shape = _shape(q, v, tile, causal=causal, window=window)
    scale = 1 / math.sqrt(q.size(2))
    d_table = _table_gradient(table, q.size(0)) if needs_table else None
    tensors = (q, k, v, out, d_out, d_q)
    _gradient_of_queries[(triton.cdiv(q.size(0), tile.queries), q.size(1))](
        *tensors,
        *(log_sums, deltas, first, end),
        q.size(0),
        scale,
        *_strides(*tensors),
        *_table_arguments(table),
        d_table,
        None if d_table is None else d_table.size(1),
        **shape,
    )
    tensors = (q, k, v, d_out, d_k, d_v)
    _gradient_of_keys[(triton.cdiv(k.size(0), tile.keys), q.size(1))](
        *tensors,
        *(log_sums, deltas, first, end, seen_first, seen_end),
        q.size(0),
        k.size(0),
        scale,
        *_strides(*tensors),
        *_table_arguments(table),
        **shape,
    )
    if d_table is not None:
        # Rows of a shared table are parts of one sum.
        own = d_table if gradients[-1].size(1) > 1 else d_table.sum(dim=1, keepdim=True)
        gradients[-1].copy_(own)
    return gradients


@_attend_gradient.register_fake
def _(*inputs: Any) -> list[Tensor]:
    *_, packed, table, _, _, needs_table = inputs
    return _allocate_gradients(packed, table if needs_table else None)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    packed, table, *bounds, ctx.causal, ctx.window = inputs
    ctx.has_table = table is not None
    ctx.save_for_backward(*output, *bounds, *packed, *([table] if ctx.has_table else []))
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, d_out: Tensor, _: None) -> tuple[Any, ...]:
    # A kernel reads the numbers of a head from consecutive addresses.
    d_out = d_out if d_out.stride(-1) == 1 else d_out.contiguous()
    out_and_bounds, packed = ctx.saved_tensors[:6], list(ctx.saved_tensors[6:])
    table = packed.pop() if ctx.has_table else None
    needs_table = ctx.has_table and ctx.needs_input_grad[1]
    gradients = _attend_gradient(
        d_out, *out_and_bounds, packed, table, ctx.causal, ctx.window, needs_table
    )
    d_table = gradients.pop() if needs_table else None
    return (gradients, d_table, *[None] * 6)


_attend.register_autograd(_backward, setup_context=_keep)


def _unpacked(packed: list[Tensor]) -> list[Tensor]:
    """Return queries, keys and values: [T, h, d_k], [S, h, d_k], [S, h, d_v]."""
    return [part for tensor in packed for part in tensor.unbind(1)]


def _allocate_outputs(packed: list[Tensor]) -> tuple[Tensor, Tensor]:
    q, _, v = _unpacked(packed)
    out = v.new_empty(q.size(0), q.size(1), v.size(2))
    return out, q.new_empty(q.size(1), q.size(0), dtype=torch.float32)


def _allocate_gradients(packed: list[Tensor], table: Tensor | None) -> list[Tensor]:
    tensors = packed if table is None else [*packed, table]
    return [tensor.new_empty(tensor.shape) for tensor in tensors]


def _table_gradient(table: Tensor | None, queries: int) -> Tensor:
    """Allocate zeros to add the gradient of a table to, [h, rows, 2·max_distance + 1]."""
    assert table is not None
    h, rows, columns = table.shape
    rows = queries if rows > 1 else GRADIENT_ROWS
    return table.new_zeros(h, rows, columns, dtype=torch.float32)


def _table_arguments(table: Tensor | None) -> tuple[Any, ...]:
    """Return the table of a term, its strides by head, query and distance, and its max_distance."""
    if table is None:
        return (None,) * 5
    by_head, by_query, by_distance = table.stride()
    is_shared = table.size(1) == 1
    return table, by_head, 0 if is_shared else by_query, by_distance, table.size(2) // 2


def _strides(*tensors: Tensor) -> list[int]:
    assert all(tensor.stride(2) == 1 for tensor in tensors), "the numbers of a head lie apart"
    return [step for tensor in tensors for step in tensor.stride()[:2]]


def _tile(q: Tensor, v: Tensor, tile: Tile) -> Tile:
    is_wide = max(q.size(2), v.size(2)) > WIDE
    return SMALL_TILE if is_wide or q.dtype == torch.float32 else tile


def _shape(q: Tensor, v: Tensor, tile: Tile, *, causal: bool, window: int | None) -> dict[str, Any]:
    d_k, d_v = q.size(2), v.size(2)
    return {
        "causal": causal,
        "window": window,
        "d_k": d_k,
        "d_v": d_v,
        "width_k": max(16, triton.next_power_of_2(d_k)),
        "width_v": max(16, triton.next_power_of_2(d_v)),
        **tile._asdict(),
    }


@triton.jit
def _forward(
    q_pointer,
    k_pointer,
    v_pointer,
    out_pointer,
    log_sums_pointer,
    first_pointer,
    end_pointer,
    t,
    scale,
    q_step,
    q_head,
    k_step,
    k_head,
    v_step,
    v_head,
    out_step,
    out_head,
    table_pointer,
    table_head,
    table_query,
    table_step,
    max_distance,
    causal: tl.constexpr,
    window: tl.constexpr,
    d_k: tl.constexpr,
    d_v: tl.constexpr,
    width_k: tl.constexpr,
    width_v: tl.constexpr,
    queries: tl.constexpr,
    keys: tl.constexpr,
):
    """One block of queries of one head; the softmax's sum and maximum grow with the keys read."""
    block, head = tl.program_id(0), tl.program_id(1)
    i = block * queries + tl.arange(0, queries)
    first = tl.load(first_pointer + i, mask=i < t, other=0)
    end = tl.load(end_pointer + i, mask=i < t, other=0)
    q = _rows(q_pointer + head * q_head, i, q_step, t, d_k, width_k)
    largest = tl.full([queries], float("-inf"), tl.float32)
    total = tl.zeros([queries], tl.float32)
    context = tl.zeros([queries, width_v], tl.float32)
    start, stop = _bounds(first_pointer, end_pointer, block, queries, t)
    if causal:
        stop = tl.minimum(stop, block * queries + queries)
    if window is not None:
        start = tl.maximum(start, block * queries - window + 1)
        stop = tl.minimum(stop, block * queries + queries + window - 1)
    for at in range(start, stop, keys):
        j = at + tl.arange(0, keys)
        k = _rows(k_pointer + head * k_head, j, k_step, stop, d_k, width_k)
        v = _rows(v_pointer + head * v_head, j, v_step, stop, d_v, width_v)
        allowed = _allowed(i[:, None], j[None, :], first[:, None], end[:, None], causal, window)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * (scale * 1.4426950408889634)
        if table_pointer is not None:
            table_rows = table_pointer + head.to(tl.int64) * table_head + i[:, None] * table_query
            column = _column(i[:, None], j[None, :], max_distance)
            scores += _added(table_rows + column * table_step, allowed)
        scores = tl.where(allowed, scores, float("-inf"))
        higher = tl.maximum(largest, tl.max(scores, 1))
        anchor = tl.where(higher == float("-inf"), 0.0, higher)  # nothing seen as yet
        weights = tl.exp2(scores - anchor[:, None])
        shrink = tl.exp2(largest - anchor)
        total = total * shrink + tl.sum(weights, 1)
        context = context * shrink[:, None]
        context += tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        largest = higher
    has_keys = total > 0
    context = context / tl.where(has_keys, total, 1.0)[:, None]
    log_sum = tl.where(has_keys, largest + tl.log2(total), float("inf"))  # base 2
    _store_rows(out_pointer + head * out_head, context, i, out_step, t, d_v, width_v)
    tl.store(log_sums_pointer + head * t + i, log_sum, mask=i < t)


@triton.jit
def _gradient_of_queries(
    q_pointer,
    k_pointer,
    v_pointer,
    out_pointer,
    d_out_pointer,
    d_q_pointer,
    log_sums_pointer,
    deltas_pointer,
    first_pointer,
    end_pointer,
    t,
    scale,
    q_step,
    q_head,
    k_step,
    k_head,
    v_step,
    v_head,
    out_step,
    out_head,
    d_out_step,
    d_out_head,
    d_q_step,
    d_q_head,
    table_pointer,
    table_head,
    table_query,
    table_step,
    max_distance,
    d_table_pointer,
    d_table_rows,
    causal: tl.constexpr,
    window: tl.constexpr,
    d_k: tl.constexpr,
    d_v: tl.constexpr,
    width_k: tl.constexpr,
    width_v: tl.constexpr,
    queries: tl.constexpr,
    keys: tl.constexpr,
):
    """One block of queries of one head; keeps d_out · out of each for the gradient of keys."""
    block, head = tl.program_id(0), tl.program_id(1)
    i = block * queries + tl.arange(0, queries)
    first = tl.load(first_pointer + i, mask=i < t, other=0)
    end = tl.load(end_pointer + i, mask=i < t, other=0)
    q = _rows(q_pointer + head * q_head, i, q_step, t, d_k, width_k)
    out = _rows(out_pointer + head * out_head, i, out_step, t, d_v, width_v)
    d_out = _rows(d_out_pointer + head * d_out_head, i, d_out_step, t, d_v, width_v)
    log_sum = tl.load(log_sums_pointer + head * t + i, mask=i < t, other=float("inf"))
    delta = tl.sum(out.to(tl.float32) * d_out.to(tl.float32), 1)
    tl.store(deltas_pointer + head * t + i, delta, mask=i < t)
    d_q = tl.zeros([queries, width_k], tl.float32)
    start, stop = _bounds(first_pointer, end_pointer, block, queries, t)
    if causal:
        stop = tl.minimum(stop, block * queries + queries)
    if window is not None:
        start = tl.maximum(start, block * queries - window + 1)
        stop = tl.minimum(stop, block * queries + queries + window - 1)
    for at in range(start, stop, keys):
        j = at + tl.arange(0, keys)
        k = _rows(k_pointer + head * k_head, j, k_step, stop, d_k, width_k)
        v = _rows(v_pointer + head * v_head, j, v_step, stop, d_v, width_v)
        allowed = _allowed(i[:, None], j[None, :], first[:, None], end[:, None], causal, window)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * (scale * 1.4426950408889634)
        if table_pointer is not None:
            table_rows = table_pointer + head.to(tl.int64) * table_head + i[:, None] * table_query
            column = _column(i[:, None], j[None, :], max_distance)
            scores += _added(table_rows + column * table_step, allowed)
        weights = tl.where(allowed, tl.exp2(scores - log_sum[:, None]), 0.0)
        d_weights = tl.dot(d_out, tl.trans(v), input_precision="ieee")
        d_scores = weights * (d_weights - delta[:, None]) * scale
        if d_table_pointer is not None:
            d_added = weights * (d_weights - delta[:, None])
            row = head.to(tl.int64) * d_table_rows + i[:, None] % d_table_rows
            at_table = d_table_pointer + row * (2 * max_distance + 1) + column
            tl.atomic_add(at_table, d_added, mask=allowed, sem="relaxed")
        d_q += tl.dot(d_scores.to(k.dtype), k, input_precision="ieee")
    _store_rows(d_q_pointer + head * d_q_head, d_q, i, d_q_step, t, d_k, width_k)


@triton.jit
def _gradient_of_keys(
    q_pointer,
    k_pointer,
    v_pointer,
    d_out_pointer,
    d_k_pointer,
    d_v_pointer,
    log_sums_pointer,
    deltas_pointer,
    first_pointer,
    end_pointer,
    seen_first_pointer,
    seen_end_pointer,
    t,
    s,
    scale,
    q_step,
    q_head,
    k_step,
    k_head,
    v_step,
    v_head,
    d_out_step,
    d_out_head,
    d_k_step,
    d_k_head,
    d_v_step,
    d_v_head,
    table_pointer,
    table_head,
    table_query,
    table_step,
    max_distance,
    causal: tl.constexpr,
    window: tl.constexpr,
    d_k: tl.constexpr,
    d_v: tl.constexpr,
    width_k: tl.constexpr,
    width_v: tl.constexpr,
    queries: tl.constexpr,
    keys: tl.constexpr,
):
    """One block of keys and values of one head; all tiles are transposed, [keys, queries]."""
    block, head = tl.program_id(0), tl.program_id(1)
    j = block * keys + tl.arange(0, keys)
    k = _rows(k_pointer + head * k_head, j, k_step, s, d_k, width_k)
    v = _rows(v_pointer + head * v_head, j, v_step, s, d_v, width_v)
    of_k = tl.zeros([keys, width_k], tl.float32)
    of_v = tl.zeros([keys, width_v], tl.float32)
    start, stop = _bounds(seen_first_pointer, seen_end_pointer, block, keys, s)
    if causal:
        start = tl.maximum(start, block * keys)
    if window is not None:
        start = tl.maximum(start, block * keys - window + 1)
        stop = tl.minimum(stop, block * keys + keys + window - 1)
    for at in range(start, stop, queries):
        i = at + tl.arange(0, queries)
        first = tl.load(first_pointer + i, mask=i < stop, other=0)
        end = tl.load(end_pointer + i, mask=i < stop, other=0)
        log_sum = tl.load(log_sums_pointer + head * t + i, mask=i < stop, other=float("inf"))
        delta = tl.load(deltas_pointer + head * t + i, mask=i < stop, other=0.0)
        q = _rows(q_pointer + head * q_head, i, q_step, stop, d_k, width_k)
        d_out = _rows(d_out_pointer + head * d_out_head, i, d_out_step, stop, d_v, width_v)
        allowed = _allowed(i[None, :], j[:, None], first[None, :], end[None, :], causal, window)
        scores = tl.dot(k, tl.trans(q), input_precision="ieee") * (scale * 1.4426950408889634)
        if table_pointer is not None:
            table_rows = table_pointer + head.to(tl.int64) * table_head + i[None, :] * table_query
            column = _column(i[None, :], j[:, None], max_distance)
            scores += _added(table_rows + column * table_step, allowed)
        weights = tl.where(allowed, tl.exp2(scores - log_sum[None, :]), 0.0)
        of_v += tl.dot(weights.to(d_out.dtype), d_out, input_precision="ieee")
        d_weights = tl.dot(v, tl.trans(d_out), input_precision="ieee")
        d_scores = weights * (d_weights - delta[None, :]) * scale
        of_k += tl.dot(d_scores.to(q.dtype), q, input_precision="ieee")
    _store_rows(d_k_pointer + head * d_k_head, of_k, j, d_k_step, s, d_k, width_k)
    _store_rows(d_v_pointer + head * d_v_head, of_v, j, d_v_step, s, d_v, width_v)


@triton.jit
def _bounds(first_pointer, end_pointer, block, size: tl.constexpr, count):
    """Return where the ranges of a block start and end, taken together."""
    last = tl.minimum(block * size + size, count) - 1
    return tl.load(first_pointer + block * size), tl.load(end_pointer + last)


@triton.jit
def _allowed(i, j, first, end, causal: tl.constexpr, window: tl.constexpr):
    """Return which of the keys j each of the queries i may attend to."""
    within = (j >= first) & (j < end)
    if causal:
        within = within & (j <= i)
    if window is not None:
        within = within & (j - i < window) & (i - j < window)
    return within


@triton.jit
def _column(i, j, max_distance):
    """Return the column of a score table for the distances j − i."""
    return tl.minimum(tl.maximum(j - i, -max_distance), max_distance) + max_distance


@triton.jit
def _added(pointers, allowed):
    """Load the numbers of a score term, for softmaxes to base 2."""
    return tl.load(pointers, mask=allowed, other=0.0).to(tl.float32) * 1.4426950408889634


@triton.jit
def _rows(pointer, rows, step, stop, d: tl.constexpr, width: tl.constexpr):
    """Load rows before `stop`, with zeros from there on and beyond a head's width."""
    columns = tl.arange(0, width)
    mask = (rows < stop)[:, None] & (columns < d)[None, :]
    return tl.load(pointer + rows[:, None] * step + columns[None, :], mask=mask, other=0.0)


@triton.jit
def _store_rows(pointer, values, rows, step, stop, d: tl.constexpr, width: tl.constexpr):
    columns = tl.arange(0, width)
    mask = (rows < stop)[:, None] & (columns < d)[None, :]
    pointers = pointer + rows[:, None] * step + columns[None, :]
    tl.store(pointers, values.to(pointer.dtype.element_ty), mask=mask)
