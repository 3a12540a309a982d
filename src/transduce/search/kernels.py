"""Kernels for CUDA devices that read the logits of a step in one pass.

The logits of a step are its largest tensor by far: a row for each hypothesis, as long as the
vocabulary. A softmax would write them and read them again, and sorting reads them many times. Here
they are read once, and only the most promising chunks a second time.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from transduce.search.candidates import CHUNK

BLOCK = 4096
"""The entries that a program holds at once."""
MAX_COUNT = 32
"""Entries are sorted by taking the largest again and again, which is too slow for more."""


def likeliest(
    logits: Tensor, count: int, *, allowed: Tensor | None = None, renormalise: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the largest entries of each row in float32, their ids, and log Σ exp of the row.

    The rows are [B, k, V]. `allowed`, which broadcasts to them, masks the entries to choose from;
    renormalised, the sum is over these alone. Where too few are allowed, the entries are −∞ and
    their ids any. The count largest lie in the count chunks with the largest maxima.
    """
    *rows, size = logits.shape
    chunks = triton.cdiv(size, CHUNK)
    maxima = logits.new_empty(*rows, chunks)
    normaliser = torch.empty(*rows, 1, dtype=torch.float32, device=logits.device)
    values = torch.empty(*rows, count, dtype=torch.float32, device=logits.device)
    ids = torch.empty(*rows, count, dtype=torch.long, device=logits.device)
    is_masked = allowed is not None
    mask = logits if allowed is None else allowed.expand(logits.shape).view(torch.uint8)
    strides = mask.stride() if is_masked else (0, 0, 0)
    grid = (normaliser.numel(),)
    _summarise[grid](
        logits,
        maxima,
        normaliser,
        mask,
        logits.size(-2),
        *strides,
        size,
        chunks,
        CHUNK,
        BLOCK,
        is_masked,
        is_masked and renormalise,
        num_warps=4,
    )
    _take_largest[grid](
        logits,
        maxima,
        values,
        ids,
        mask,
        logits.size(-2),
        *strides,
        size,
        chunks,
        CHUNK,
        count,
        triton.next_power_of_2(chunks),
        triton.next_power_of_2(count),
        is_masked,
        num_warps=2,
    )
    return values, ids, normaliser


@triton.jit
def _summarise(
    logits,
    maxima,
    normaliser,
    allowed,
    hypotheses,
    allowed_b,
    allowed_k,
    allowed_v,
    size: tl.constexpr,  # known to the compiler, which then reads as much at once as it can
    chunks: tl.constexpr,
    chunk: tl.constexpr,
    block: tl.constexpr,
    is_masked: tl.constexpr,
    is_renormalised: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    largest = -1e30  # finite even before anything was read: two infinities must never meet
    total = tl.zeros((block,), tl.float32)  # of exp(x - largest)
    for start in range(0, size, block):
        places = start + tl.arange(0, block)
        x = tl.load(logits + row * size + places, mask=places < size, other=-float("inf"))
        x = x.to(tl.float32)
        choosable = x
        if is_masked:
            its_mask = allowed + row // hypotheses * allowed_b + row % hypotheses * allowed_k
            is_allowed = tl.load(its_mask + places * allowed_v, mask=places < size, other=0)
            choosable = tl.where(is_allowed != 0, x, -float("inf"))
        if is_renormalised:
            x = choosable
        of_chunks = tl.max(tl.reshape(choosable, (block // chunk, chunk)), axis=1)
        numbers = start // chunk + tl.arange(0, block // chunk)
        tl.store(maxima + row * chunks + numbers, of_chunks, mask=numbers < chunks)
        before = largest
        if is_masked:
            largest = tl.maximum(largest, tl.max(x, axis=0))
        else:
            largest = tl.maximum(largest, tl.max(of_chunks, axis=0))
        total = total * tl.exp(before - largest) + tl.exp(x - largest)
    tl.store(normaliser + row, largest + tl.log(tl.sum(total, axis=0)))


@triton.jit
def _take_largest(
    logits,
    maxima,
    values,
    ids,
    allowed,
    hypotheses,
    allowed_b,
    allowed_k,
    allowed_v,
    size: tl.constexpr,
    chunks: tl.constexpr,
    chunk: tl.constexpr,
    count: tl.constexpr,
    all_chunks: tl.constexpr,
    slots: tl.constexpr,
    is_masked: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    numbers = tl.arange(0, all_chunks)
    left = tl.load(maxima + row * chunks + numbers, mask=numbers < chunks, other=-float("inf"))
    left = left.to(tl.float32)
    slot = tl.arange(0, slots)
    chosen = tl.zeros((slots,), tl.int32)
    for turn in range(count):
        best = tl.argmax(left, axis=0)
        chosen = tl.where(slot == turn, best, chosen)
        left = tl.where(numbers == best, -float("inf"), left)
    places = chosen[:, None] * chunk + tl.arange(0, chunk)[None, :]
    is_entry = (slot[:, None] < count) & (places < size)
    x = tl.load(logits + row * size + places, mask=is_entry, other=-float("inf")).to(tl.float32)
    if is_masked:
        its_mask = allowed + row // hypotheses * allowed_b + row % hypotheses * allowed_k
        is_allowed = tl.load(its_mask + places * allowed_v, mask=is_entry, other=0)
        x = tl.where(is_allowed != 0, x, -float("inf"))
    for turn in range(count):
        best = tl.max(tl.max(x, axis=1), axis=0)
        its_place = tl.min(tl.min(tl.where(x == best, places, size - 1), axis=1), axis=0)
        tl.store(values + row * count + turn, best)
        tl.store(ids + row * count + turn, its_place.to(tl.int64))
        x = tl.where(places == its_place, -float("inf"), x)
