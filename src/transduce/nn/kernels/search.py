"""Kernels for a step of a search on a CUDA device, where torch's are made for larger inputs.

Fused attention is made for training, with as many queries as keys: it fills tiles of 64 queries and
wants its mask as numbers. A step of a search has one query for each hypothesis. Here a program
holds all queries of one head of one sentence and reads its keys and values once; nothing else takes
time.

Arguments that are None compile to nothing: attention without a mask, term or window pays for none.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from transduce.nn.kernels.available import MAX_QUERIES
from transduce.nn.mixers.positions import ScoreTerm


def attend_few_queries(
    q: Tensor,  # [B, h, T, d_k]
    k: Tensor,  # [B, h, S, d_k]
    v: Tensor,  # [B, h, S, d_v]
    allowed: Tensor | None,
) -> Tensor:
    """Return softmax(q k^T / sqrt(d_k)) v, without a gradient.

    `allowed` is boolean, or is added to the scaled scores; it broadcasts to [B, h, T, S].
    """
    batch, h, t, d_k = q.shape
    s, d_v = v.shape[2:]
    # As the output projection reads it: the heads of a position side by side.
    out = torch.empty(batch, t, h, d_v, dtype=q.dtype, device=q.device)
    is_added = allowed is not None and allowed.dtype != torch.bool
    mask = None if allowed is None else _with_four_dimensions(allowed).expand(batch, -1, t, s)
    by_head = mask is not None and mask.size(1) > 1
    _attend[(batch * h,)](
        q,
        k,
        v,
        mask if is_added or mask is None else mask.view(torch.uint8),
        out,
        h,
        t,
        s,
        1 / math.sqrt(d_k),
        *q.stride(),
        *k.stride(),
        *v.stride(),
        *((None,) * 4 if mask is None else mask.stride()),
        d_k=d_k,
        d_v=d_v,
        width_k=max(16, triton.next_power_of_2(d_k)),
        width_v=max(16, triton.next_power_of_2(d_v)),
        is_added=is_added,
        by_head=by_head,
        queries=MAX_QUERIES,
        keys=64 if s > 32 and max(d_k, d_v) <= 64 else 32,
        num_warps=2,
    )
    return out.transpose(1, 2)  # [B, h, T, d_v]


def _with_four_dimensions(mask: Tensor) -> Tensor:
    return mask.view(*[1] * (4 - mask.dim()), *mask.shape)


def surviving_slots(past: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
    """List the slots that any hypothesis descends from, up to a position, [1].

    `past`, [B, k, T], is the table of a `BeamHistory`. Returned are the numbers of the surviving
    slots of each sentence, [B, T*k], in order, and how many there are, [B]. Hypotheses share most
    of their past: of k slots at an old position, usually one survives.
    """
    batch, count, steps = past.shape
    slots = past.new_empty(batch, steps * count, dtype=torch.int32)
    counts = past.new_empty(batch, dtype=torch.int32)
    _survive[(batch,)](
        past,
        position,
        slots,
        counts,
        steps,
        *past.stride(),
        count=count,
        width=triton.next_power_of_2(steps * count),
    )
    return slots, counts


@triton.jit
def _survive(
    past,
    position,
    slots,
    counts,
    steps,
    past_b,
    past_k,
    past_t,
    count: tl.constexpr,
    width: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    filled = tl.load(position) + 1
    number = tl.arange(0, width)
    when = number // count
    survives = number < 0
    for row in range(count):
        its = tl.load(
            past + b * past_b + row * past_k + when * past_t, mask=when < filled, other=-1
        )
        survives = survives | (its == number % count)
    found = survives.to(tl.int32)
    rank = tl.cumsum(found, axis=0) - 1
    tl.store(slots + b * steps * count + rank, number, mask=survives)
    tl.store(counts + b, tl.sum(found, axis=0))


def attend_cached(
    q: Tensor,  # [B, h, k, d_k]
    k: Tensor,  # [B, h, T*k, d_k]
    v: Tensor,  # [B, h, T*k, d_v]
    past: Tensor,  # [B, k, T]
    slots: Tensor,  # [B, T*k]
    counts: Tensor,  # [B]
    *,
    position: Tensor | None = None,  # [1]
    term: ScoreTerm | None = None,
    window: int | None = None,
) -> Tensor:
    """Let each hypothesis attend to its own past, without a gradient; see `surviving_slots`.

    A term and a window need the position of this step, on the device.
    """
    batch, h, count, d_k = q.shape
    d_v = v.size(3)
    out = torch.empty(batch, count, h, d_v, dtype=q.dtype, device=q.device)
    by_distance = term is not None or window is not None
    assert position is not None or not by_distance, "distances need a position"
    table = None if term is None else term.table.expand(batch, h, count, -1)
    _attend_past[(batch * h,)](
        *(q, k, v, past, slots, counts, out),
        position if by_distance else None,
        table,
        h,
        1 / math.sqrt(d_k),
        *q.stride(),
        *k.stride(),
        *v.stride(),
        *past.stride(),
        slots.stride(0),
        *((None,) * 4 if table is None else table.stride()),
        None if term is None else term.max_distance,
        window=window,
        count=count,
        d_k=d_k,
        d_v=d_v,
        width_k=max(16, triton.next_power_of_2(d_k)),
        width_v=max(16, triton.next_power_of_2(d_v)),
        queries=MAX_QUERIES,
        keys=32,
        num_warps=1,
    )
    return out.transpose(1, 2)  # [B, h, k, d_v]


@triton.jit
def _attend_past(
    q,
    k,
    v,
    past,
    slots,
    counts,
    out,
    position,
    table,
    h,
    scale,
    q_b,
    q_h,
    q_t,
    q_d,
    k_b,
    k_h,
    k_s,
    k_d,
    v_b,
    v_h,
    v_s,
    v_d,
    past_b,
    past_k,
    past_t,
    slots_b,
    table_b,
    table_h,
    table_t,
    table_d,
    max_distance,
    window: tl.constexpr,
    count: tl.constexpr,
    d_k: tl.constexpr,
    d_v: tl.constexpr,
    width_k: tl.constexpr,
    width_v: tl.constexpr,
    queries: tl.constexpr,
    keys: tl.constexpr,
):
    b = (tl.program_id(0) // h).to(tl.int64)
    head = (tl.program_id(0) % h).to(tl.int64)
    found = tl.load(counts + b)
    row = tl.arange(0, queries)
    in_k = tl.arange(0, width_k)
    in_v = tl.arange(0, width_v)
    is_row = row < count
    q_tile = tl.load(
        q + b * q_b + head * q_h + row[:, None] * q_t + in_k[None, :] * q_d,
        mask=is_row[:, None] & (in_k[None, :] < d_k),
        other=0.0,
    )
    largest = tl.full((queries,), -1e30, tl.float32)
    total = tl.zeros((queries,), tl.float32)
    context = tl.zeros((queries, width_v), tl.float32)
    for start in range(0, found, keys):
        rank = start + tl.arange(0, keys)
        is_slot = rank < found
        slot = tl.load(slots + b * slots_b + rank, mask=is_slot, other=0)
        if position is not None:
            distance = (slot // count - tl.load(position)).to(tl.int32)
        if window is not None:
            is_slot = is_slot & (distance > -window)
        k_tile = tl.load(
            k + b * k_b + head * k_h + slot[None, :] * k_s + in_k[:, None] * k_d,
            mask=is_slot[None, :] & (in_k[:, None] < d_k),
            other=0.0,
        )
        v_tile = tl.load(
            v + b * v_b + head * v_h + slot[:, None] * v_s + in_v[None, :] * v_d,
            mask=is_slot[:, None] & (in_v[None, :] < d_v),
            other=0.0,
        )
        its = tl.load(
            past + b * past_b + row[:, None] * past_k + (slot // count)[None, :] * past_t,
            mask=is_row[:, None] & is_slot[None, :],
            other=-1,
        )
        is_own = its == (slot % count)[None, :]
        scores = tl.dot(q_tile, k_tile, input_precision="ieee") * scale
        if table is not None:
            column = tl.minimum(tl.maximum(distance, -max_distance), max_distance) + max_distance
            table_rows = table + b * table_b + head * table_h + row[:, None] * table_t
            added = tl.load(table_rows + column[None, :] * table_d, mask=is_own, other=0.0)
            scores += added.to(tl.float32)
        scores = tl.where(is_own, scores, -1e30)
        before = largest
        largest = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.where(is_own, tl.exp(scores - largest[:, None]), 0.0)
        shrink = tl.exp(before - largest)
        total = total * shrink + tl.sum(weights, axis=1)
        context = context * shrink[:, None] + tl.dot(
            weights.to(v_tile.dtype), v_tile, input_precision="ieee"
        )
    context = context / tl.maximum(total, 1e-30)[:, None]
    tl.store(
        out + ((b * count + row[:, None]) * h + head) * d_v + in_v[None, :],
        context.to(out.dtype.element_ty),
        mask=is_row[:, None] & (in_v[None, :] < d_v),
    )


def write_cache(position: Tensor, keys: Tensor, values: Tensor, k: Tensor, v: Tensor) -> None:
    """Write k and v, [B, h, k, …], into keys and values, [B, h, T, k, …], at one position, [1]."""
    batch, h, count, d_k = k.shape
    d_v = v.size(3)
    _write_at[(batch * h,)](
        position,
        keys,
        values,
        k,
        v,
        h,
        count,
        *keys.stride()[:4],
        *values.stride()[:4],
        *k.stride(),
        *v.stride(),
        d_k=d_k,
        d_v=d_v,
        rows=triton.next_power_of_2(count),
        width_k=triton.next_power_of_2(d_k),
        width_v=triton.next_power_of_2(d_v),
        num_warps=1,
    )


@triton.jit
def _write_at(
    position,
    keys,
    values,
    k,
    v,
    h,
    count,
    keys_b,
    keys_h,
    keys_t,
    keys_k,
    values_b,
    values_h,
    values_t,
    values_k,
    k_b,
    k_h,
    k_k,
    k_d,
    v_b,
    v_h,
    v_k,
    v_d,
    d_k: tl.constexpr,
    d_v: tl.constexpr,
    rows: tl.constexpr,
    width_k: tl.constexpr,
    width_v: tl.constexpr,
):
    b = (tl.program_id(0) // h).to(tl.int64)
    head = (tl.program_id(0) % h).to(tl.int64)
    at = tl.load(position)
    row = tl.arange(0, rows)[:, None]
    in_k = tl.arange(0, width_k)[None, :]
    in_v = tl.arange(0, width_v)[None, :]
    is_k = (row < count) & (in_k < d_k)
    is_v = (row < count) & (in_v < d_v)
    new_k = tl.load(k + b * k_b + head * k_h + row * k_k + in_k * k_d, mask=is_k)
    new_v = tl.load(v + b * v_b + head * v_h + row * v_k + in_v * v_d, mask=is_v)
    to_k = keys + b * keys_b + head * keys_h + at * keys_t + row * keys_k + in_k
    to_v = values + b * values_b + head * values_h + at * values_t + row * values_k + in_v
    tl.store(to_k, new_k, mask=is_k)
    tl.store(to_v, new_v, mask=is_v)


def add_norm(x: Tensor, y: Tensor, norm: nn.LayerNorm) -> Tensor:
    """Return LayerNorm(x + y), without a gradient."""
    width = x.size(-1)
    y = y.contiguous()
    out = torch.empty_like(y, dtype=torch.promote_types(x.dtype, y.dtype))
    _add_norm[(y.numel() // width,)](
        x.contiguous(),
        y,
        norm.weight,
        norm.bias,
        out,
        norm.eps,
        width,
        block=triton.next_power_of_2(width),
        num_warps=2,
    )
    return out


@triton.jit
def _add_norm(x, y, gain, bias, out, epsilon, width, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * width
    columns = tl.arange(0, block)
    is_column = columns < width
    total = tl.load(x + row + columns, mask=is_column, other=0.0).to(tl.float32)
    total += tl.load(y + row + columns, mask=is_column, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / width
    centred = tl.where(is_column, total - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / width + epsilon)
    normal = centred * scale * tl.load(gain + columns, mask=is_column, other=0.0).to(tl.float32)
    normal += tl.load(bias + columns, mask=is_column, other=0.0).to(tl.float32)
    tl.store(out + row + columns, normal.to(out.dtype.element_ty), mask=is_column)


@triton.jit
def _attend(
    q,
    k,
    v,
    allowed,
    out,
    h,
    t,
    s,
    scale,
    q_b,
    q_h,
    q_t,
    q_d,
    k_b,
    k_h,
    k_s,
    k_d,
    v_b,
    v_h,
    v_s,
    v_d,
    allowed_b,
    allowed_h,
    allowed_t,
    allowed_s,
    d_k: tl.constexpr,
    d_v: tl.constexpr,
    width_k: tl.constexpr,
    width_v: tl.constexpr,
    is_added: tl.constexpr,
    by_head: tl.constexpr,
    queries: tl.constexpr,
    keys: tl.constexpr,
):
    b = (tl.program_id(0) // h).to(tl.int64)
    head = (tl.program_id(0) % h).to(tl.int64)
    rows = tl.arange(0, queries)
    in_k = tl.arange(0, width_k)
    in_v = tl.arange(0, width_v)
    q_tile = tl.load(
        q + b * q_b + head * q_h + rows[:, None] * q_t + in_k[None, :] * q_d,
        mask=(rows[:, None] < t) & (in_k[None, :] < d_k),
        other=0.0,
    )
    largest = tl.full((queries,), -1e30, tl.float32)
    total = tl.zeros((queries,), tl.float32)
    context = tl.zeros((queries, width_v), tl.float32)
    for start in range(0, s, keys):
        key = start + tl.arange(0, keys)
        is_key = key < s
        k_tile = tl.load(
            k + b * k_b + head * k_h + key[None, :] * k_s + in_k[:, None] * k_d,
            mask=is_key[None, :] & (in_k[:, None] < d_k),
            other=0.0,
        )
        v_tile = tl.load(
            v + b * v_b + head * v_h + key[:, None] * v_s + in_v[None, :] * v_d,
            mask=is_key[:, None] & (in_v[None, :] < d_v),
            other=0.0,
        )
        is_allowed = is_key[None, :] & (rows[:, None] < t)
        if allowed is not None:
            mask_rows = allowed + b * allowed_b + rows[:, None] * allowed_t
            if by_head:
                mask_rows += head * allowed_h
            mask = tl.load(mask_rows + key[None, :] * allowed_s, mask=is_allowed, other=0)
            hidden = float("-inf") if is_added else 0
            is_allowed = is_allowed & (mask != hidden)
        scores = tl.dot(q_tile, k_tile, input_precision="ieee") * scale
        if is_added:
            scores += mask.to(tl.float32)
        scores = tl.where(is_allowed, scores, -1e30)
        before = largest
        largest = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.where(is_allowed, tl.exp(scores - largest[:, None]), 0.0)
        shrink = tl.exp(before - largest)
        total = total * shrink + tl.sum(weights, axis=1)
        context = context * shrink[:, None] + tl.dot(
            weights.to(v_tile.dtype), v_tile, input_precision="ieee"
        )
    context = context / tl.maximum(total, 1e-30)[:, None]
    tl.store(
        out + ((b * t + rows[:, None]) * h + head) * d_v + in_v[None, :],
        context.to(out.dtype.element_ty),
        mask=(rows[:, None] < t) & (in_v[None, :] < d_v),
    )
