"""Attention and its gradient among sentences that lie end to end, on a CUDA device.

torch's kernels give a sentence's head a tile of its own, most of which a sentence of thirty tokens
leaves empty. Here a tile is a block of neighbouring queries, whosever they are, and it meets only
the keys between the first and the last that any of them may look at.
"""

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from transduce.nn.spans import Spans


class Tile(NamedTuple):
    """How many queries meet how many keys at a time, and how many warps work on it."""

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


def attend_spans(packed: list[Tensor], spans: Spans, *, causal: bool) -> Tensor:  # [T, h, d_v]
    """Return softmax(q k^T / sqrt(d_k)) v over each query's keys; 0 where it has none.

    Queries [T, h, d_k], keys [S, h, d_k] and values [S, h, d_v] may lie side by side in one tensor
    [T, 3, h, d_k], or keys and values in one [S, 2, h, d_k], or each for itself, [T, 1, h, d_k].
    """
    bounds = (spans.first, spans.end, spans.seen_first, spans.seen_end)
    context: Tensor = _attend(packed, *bounds, causal)[0]
    return context


@torch.library.custom_op("transduce::attend_spans", mutates_args=())
def _attend(
    packed: list[Tensor],
    first: Tensor,
    end: Tensor,
    seen_first: Tensor,  # noqa: ARG001 - for the gradient
    seen_end: Tensor,  # noqa: ARG001
    causal: bool,
) -> tuple[Tensor, Tensor]:
    """Return the context, and the logarithm of each softmax's sum for the gradient."""
    q, k, v = _unpacked(packed)
    out, log_sums = _room(packed)
    tile = _tile(q, v, TILE)
    _forward[(triton.cdiv(q.size(0), tile.queries), q.size(1))](
        q,
        k,
        v,
        out,
        log_sums,
        first,
        end,
        q.size(0),
        1 / math.sqrt(q.size(2)),
        *_strides(q, k, v, out),
        **_shape(q, v, tile, causal=causal),
    )
    return out, log_sums


@_attend.register_fake
def _(packed: list[Tensor], *_: object) -> tuple[Tensor, Tensor]:
    return _room(packed)


@torch.library.custom_op("transduce::attend_spans_gradient", mutates_args=())
def _attend_gradient(
    d_out: Tensor,  # [T, h, d_v]
    out: Tensor,  # [T, h, d_v]
    log_sums: Tensor,  # [h, T]
    first: Tensor,
    end: Tensor,
    seen_first: Tensor,
    seen_end: Tensor,
    packed: list[Tensor],
    causal: bool,
) -> list[Tensor]:
    """Return the gradients of queries, keys and values, which lie as these do."""
    d_packed = _gradient_room(packed)
    (q, k, v), (d_q, d_k, d_v) = _unpacked(packed), _unpacked(d_packed)
    deltas = torch.empty_like(log_sums)
    tile = _tile(q, v, GRADIENT_TILE)
    shape = _shape(q, v, tile, causal=causal)
    scale = 1 / math.sqrt(q.size(2))
    _gradient_of_queries[(triton.cdiv(q.size(0), tile.queries), q.size(1))](
        q,
        k,
        v,
        out,
        d_out,
        d_q,
        log_sums,
        deltas,
        first,
        end,
        q.size(0),
        scale,
        *_strides(q, k, v, out, d_out, d_q),
        **shape,
    )
    _gradient_of_keys[(triton.cdiv(k.size(0), tile.keys), q.size(1))](
        q,
        k,
        v,
        d_out,
        d_k,
        d_v,
        log_sums,
        deltas,
        first,
        end,
        seen_first,
        seen_end,
        q.size(0),
        k.size(0),
        scale,
        *_strides(q, k, v, d_out, d_k, d_v),
        **shape,
    )
    return d_packed


@_attend_gradient.register_fake
def _(*inputs: Any) -> list[Tensor]:
    return _gradient_room(inputs[-2])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    packed, *bounds, ctx.causal = inputs
    ctx.save_for_backward(*output, *bounds, *packed)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, d_out: Tensor, _: None) -> tuple[list[Tensor] | None, ...]:
    # A kernel reads the widths of a head one after the other.
    d_out = d_out if d_out.stride(-1) == 1 else d_out.contiguous()
    out_and_bounds, packed = ctx.saved_tensors[:6], list(ctx.saved_tensors[6:])
    return (_attend_gradient(d_out, *out_and_bounds, packed, ctx.causal), *[None] * 5)


_attend.register_autograd(_backward, setup_context=_keep)


def _unpacked(packed: list[Tensor]) -> list[Tensor]:
    """Return queries, keys and values: [T, h, d_k], [S, h, d_k], [S, h, d_v]."""
    return [part for tensor in packed for part in tensor.unbind(1)]


def _room(packed: list[Tensor]) -> tuple[Tensor, Tensor]:
    q, _, v = _unpacked(packed)
    out = v.new_empty(q.size(0), q.size(1), v.size(2))
    return out, q.new_empty(q.size(1), q.size(0), dtype=torch.float32)


def _gradient_room(packed: list[Tensor]) -> list[Tensor]:
    return [tensor.new_empty(tensor.shape) for tensor in packed]


def _strides(*tensors: Tensor) -> list[int]:
    assert all(tensor.stride(2) == 1 for tensor in tensors), "the widths of a head lie apart"
    return [step for tensor in tensors for step in tensor.stride()[:2]]


def _tile(q: Tensor, v: Tensor, tile: Tile) -> Tile:
    is_wide = max(q.size(2), v.size(2)) > WIDE
    return SMALL_TILE if is_wide or q.dtype == torch.float32 else tile


def _shape(q: Tensor, v: Tensor, tile: Tile, *, causal: bool) -> dict[str, Any]:
    d_k, d_v = q.size(2), v.size(2)
    return {
        "causal": causal,
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
    causal: tl.constexpr,
    d_k: tl.constexpr,
    d_v: tl.constexpr,
    width_k: tl.constexpr,
    width_v: tl.constexpr,
    queries: tl.constexpr,
    keys: tl.constexpr,
):
    """One block of queries of one head, with the softmax's sum and maximum growing as keys come."""
    block, head = tl.program_id(0), tl.program_id(1)
    i = block * queries + tl.arange(0, queries)
    first = tl.load(first_pointer + i, mask=i < t, other=0)
    end = tl.load(end_pointer + i, mask=i < t, other=0)
    q = _rows(q_pointer + head * q_head, i, q_step, t, d_k, width_k)
    largest = tl.full([queries], float("-inf"), tl.float32)
    total = tl.zeros([queries], tl.float32)
    context = tl.zeros([queries, width_v], tl.float32)
    start, stop = _reach(first_pointer, end_pointer, block, queries, t)
    if causal:
        stop = tl.minimum(stop, block * queries + queries)
    for at in range(start, stop, keys):
        j = at + tl.arange(0, keys)
        k = _rows(k_pointer + head * k_head, j, k_step, stop, d_k, width_k)
        v = _rows(v_pointer + head * v_head, j, v_step, stop, d_v, width_v)
        allowed = _allowed(i[:, None], j[None, :], first[:, None], end[:, None], causal)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * (scale * 1.4426950408889634)
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
    causal: tl.constexpr,
    d_k: tl.constexpr,
    d_v: tl.constexpr,
    width_k: tl.constexpr,
    width_v: tl.constexpr,
    queries: tl.constexpr,
    keys: tl.constexpr,
):
    """One block of queries of one head; notes d_out · out of each, which the keys need as well."""
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
    start, stop = _reach(first_pointer, end_pointer, block, queries, t)
    if causal:
        stop = tl.minimum(stop, block * queries + queries)
    for at in range(start, stop, keys):
        j = at + tl.arange(0, keys)
        k = _rows(k_pointer + head * k_head, j, k_step, stop, d_k, width_k)
        v = _rows(v_pointer + head * v_head, j, v_step, stop, d_v, width_v)
        allowed = _allowed(i[:, None], j[None, :], first[:, None], end[:, None], causal)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * (scale * 1.4426950408889634)
        weights = tl.where(allowed, tl.exp2(scores - log_sum[:, None]), 0.0)
        d_weights = tl.dot(d_out, tl.trans(v), input_precision="ieee")
        d_scores = weights * (d_weights - delta[:, None]) * scale
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
    causal: tl.constexpr,
    d_k: tl.constexpr,
    d_v: tl.constexpr,
    width_k: tl.constexpr,
    width_v: tl.constexpr,
    queries: tl.constexpr,
    keys: tl.constexpr,
):
    """One block of keys and values of one head; all lies transposed, [keys, queries]."""
    block, head = tl.program_id(0), tl.program_id(1)
    j = block * keys + tl.arange(0, keys)
    k = _rows(k_pointer + head * k_head, j, k_step, s, d_k, width_k)
    v = _rows(v_pointer + head * v_head, j, v_step, s, d_v, width_v)
    of_k = tl.zeros([keys, width_k], tl.float32)
    of_v = tl.zeros([keys, width_v], tl.float32)
    start, stop = _reach(seen_first_pointer, seen_end_pointer, block, keys, s)
    if causal:
        start = tl.maximum(start, block * keys)
    for at in range(start, stop, queries):
        i = at + tl.arange(0, queries)
        first = tl.load(first_pointer + i, mask=i < stop, other=0)
        end = tl.load(end_pointer + i, mask=i < stop, other=0)
        log_sum = tl.load(log_sums_pointer + head * t + i, mask=i < stop, other=float("inf"))
        delta = tl.load(deltas_pointer + head * t + i, mask=i < stop, other=0.0)
        q = _rows(q_pointer + head * q_head, i, q_step, stop, d_k, width_k)
        d_out = _rows(d_out_pointer + head * d_out_head, i, d_out_step, stop, d_v, width_v)
        allowed = _allowed(i[None, :], j[:, None], first[None, :], end[None, :], causal)
        scores = tl.dot(k, tl.trans(q), input_precision="ieee") * (scale * 1.4426950408889634)
        weights = tl.where(allowed, tl.exp2(scores - log_sum[None, :]), 0.0)
        of_v += tl.dot(weights.to(d_out.dtype), d_out, input_precision="ieee")
        d_weights = tl.dot(v, tl.trans(d_out), input_precision="ieee")
        d_scores = weights * (d_weights - delta[None, :]) * scale
        of_k += tl.dot(d_scores.to(q.dtype), q, input_precision="ieee")
    _store_rows(d_k_pointer + head * d_k_head, of_k, j, d_k_step, s, d_k, width_k)
    _store_rows(d_v_pointer + head * d_v_head, of_v, j, d_v_step, s, d_v, width_v)


@triton.jit
def _reach(first_pointer, end_pointer, block, size: tl.constexpr, count):
    """Return where the runs of a block begin and end, all taken together."""
    last = tl.minimum(block * size + size, count) - 1
    return tl.load(first_pointer + block * size), tl.load(end_pointer + last)


@triton.jit
def _allowed(i, j, first, end, causal: tl.constexpr):
    """Say which of the keys j each of the queries i may look at."""
    within = (j >= first) & (j < end)
    if causal:
        within = within & (j <= i)
    return within


@triton.jit
def _rows(pointer, rows, step, stop, d: tl.constexpr, width: tl.constexpr):
    """Load rows before `stop`, with zeros where there are none and beyond a head's width."""
    columns = tl.arange(0, width)
    mask = (rows < stop)[:, None] & (columns < d)[None, :]
    return tl.load(pointer + rows[:, None] * step + columns[None, :], mask=mask, other=0.0)


@triton.jit
def _store_rows(pointer, values, rows, step, stop, d: tl.constexpr, width: tl.constexpr):
    columns = tl.arange(0, width)
    mask = (rows < stop)[:, None] & (columns < d)[None, :]
    places = pointer + rows[:, None] * step + columns[None, :]
    tl.store(places, values.to(pointer.dtype.element_ty), mask=mask)
