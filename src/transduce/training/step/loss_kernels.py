"""The loss and its gradient, computed in place of the logits, on a CUDA device.

With one kernel per operation, softmax, loss and gradient are many passes over the largest tensor of
a training step. Here it is read twice, the second time from the cache, and written once.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from transduce.text.special_ids import PAD_ID

BLOCK, WARPS = 4096, 16
LOG2_E = tl.constexpr(math.log2(math.e))
FAR = 64.0
"""How far logits may exceed the anchor of a sum of exponentials before a new one is chosen."""


def logits_loss(
    logits: Tensor,  # [n, W]
    targets: Tensor,  # [n]
    eps_ls: float,
    *,
    entries: int,
    differentiate: bool,
) -> tuple[Tensor, Tensor]:
    """Return (smoothed loss, negative log-likelihood) of each row; 0 for padding.

    Only the first `entries` columns count. With `differentiate`, the gradient of the smoothed loss
    overwrites them.
    """
    loss, nll = torch.empty(2, targets.size(0), device=logits.device)
    _logits_loss[(targets.size(0),)](
        logits,
        targets,
        loss,
        nll,
        eps_ls,
        width=logits.size(1),
        v=entries,
        padding=PAD_ID,
        far=FAR,
        differentiate=differentiate,
        block=BLOCK,
        num_warps=WARPS,
    )
    return loss, nll


@triton.jit
def _logits_loss(
    logits_pointer,
    targets_pointer,
    loss_pointer,
    nll_pointer,
    eps_ls,
    width: tl.constexpr,
    v: tl.constexpr,
    padding: tl.constexpr,
    far: tl.constexpr,
    differentiate: tl.constexpr,
    block: tl.constexpr,
):
    """Compute one row of what `logits_loss` returns; the formulas are in `loss._chunk_loss`."""
    row = tl.program_id(0).to(tl.int64)
    logits_pointer += row * width
    y = tl.load(targets_pointer + row)
    z_y = tl.load(logits_pointer + y).to(tl.float32)
    anchor = z_y
    largest, total, z_sum = _sums(logits_pointer, anchor, v, block)
    if largest > anchor + far:
        anchor = largest
        largest, total, z_sum = _sums(logits_pointer, anchor, v, block)
    log_sum = anchor + tl.log(total)
    is_real = y != padding
    nll = log_sum - z_y
    loss = nll + eps_ls * (z_y - z_sum / v)
    tl.store(nll_pointer + row, tl.where(is_real, nll, 0.0))
    tl.store(loss_pointer + row, tl.where(is_real, loss, 0.0))
    if differentiate:
        # Padding has no gradient: its exponentials are 0, and so is what is subtracted from them.
        height = tl.where(is_real, log_sum, float("inf"))
        spread = tl.where(is_real, eps_ls / v, 0.0)
        for start in range(0, v // block * block, block):
            _differentiate(logits_pointer, start, height, spread, v, block, is_last=False)
        _differentiate(logits_pointer, v // block * block, height, spread, v, block, is_last=True)
        tl.debug_barrier()  # the target's gradient is written again, with its one-hot part
        d_y = _exp(z_y - height) - spread - tl.where(is_real, 1 - eps_ls, 0.0)
        tl.store(logits_pointer + y, d_y.to(logits_pointer.dtype.element_ty))


@triton.jit
def _sums(logits_pointer, anchor, v: tl.constexpr, block: tl.constexpr):
    """Return the largest logit, the sum of exp(z − anchor) and that of z.

    Threads are reduced only at the end of the row. If the anchor is one of the logits, the sum of
    exponentials is at least 1.
    """
    largest = tl.full([block], float("-inf"), tl.float32)
    total = tl.zeros([block], tl.float32)
    z_sum = tl.zeros([block], tl.float32)
    for start in range(0, v // block * block, block):
        z = tl.load(logits_pointer + start + tl.arange(0, block)).to(tl.float32)
        largest = tl.maximum(largest, z)
        total += _exp(z - anchor)
        z_sum += z
    at = v // block * block + tl.arange(0, block)
    z = tl.load(logits_pointer + at, mask=at < v, other=float("-inf")).to(tl.float32)
    largest = tl.maximum(largest, z)
    total += _exp(z - anchor)
    z_sum += tl.where(at < v, z, 0.0)
    return tl.max(largest, 0), tl.sum(total, 0), tl.sum(z_sum, 0)


@triton.jit
def _differentiate(
    logits_pointer,
    start,
    height,
    spread,
    v: tl.constexpr,
    block: tl.constexpr,
    is_last: tl.constexpr,
):
    """Turn a block of logits into exp(z − height) − spread; the last block may be partly full."""
    at = start + tl.arange(0, block)
    mask = at < v if is_last else None
    z = tl.load(logits_pointer + at, mask=mask).to(tl.float32)
    d_z = _exp(z - height) - spread
    tl.store(logits_pointer + at, d_z.to(logits_pointer.dtype.element_ty), mask=mask)


@triton.jit
def _exp(x):
    return tl.exp2(x * LOG2_E)
