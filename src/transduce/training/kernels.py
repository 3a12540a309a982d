"""The loss and its gradient where the logits lie, on a CUDA device.

Softmax, loss and gradient are many passes over the largest tensor of a training step when each
operation is a kernel of its own. Here it is read twice, the second time while it is still near, and
written once.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from transduce.text.special_ids import PAD_ID

BLOCK, WARPS = 4096, 8


def compare(
    logits: Tensor,  # [n, V]
    targets: Tensor,  # [n]
    eps_ls: float,
    *,
    differentiate: bool,
) -> tuple[Tensor, Tensor]:
    """Return (smoothed loss, negative log-likelihood) of each row; 0 where it is padding.

    The logits may become the gradient of the first.
    """
    loss, nll = torch.empty(2, targets.size(0), device=logits.device)
    _compare[(targets.size(0),)](
        logits,
        targets,
        loss,
        nll,
        logits.size(1),
        eps_ls,
        padding=PAD_ID,
        differentiate=differentiate,
        block=BLOCK,
        num_warps=WARPS,
    )
    return loss, nll


@triton.jit
def _compare(
    logits_pointer,
    targets_pointer,
    loss_pointer,
    nll_pointer,
    v,
    eps_ls,
    padding: tl.constexpr,
    differentiate: tl.constexpr,
    block: tl.constexpr,
):
    """One row; `loss` and `training.loss` say what it computes."""
    row = tl.program_id(0).to(tl.int64)
    logits_pointer += row * v
    y = tl.load(targets_pointer + row)
    z_y = tl.load(logits_pointer + y).to(tl.float32)
    largest = float("-inf")
    total = 0.0
    z_sum = 0.0
    for start in range(0, v, block):
        at = start + tl.arange(0, block)
        z = tl.load(logits_pointer + at, mask=at < v, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(largest, tl.max(z, 0))
        total = total * tl.exp(largest - higher) + tl.sum(tl.exp(z - higher), 0)
        z_sum += tl.sum(tl.where(at < v, z, 0.0), 0)
        largest = higher
    log_sum = largest + tl.log(total)
    is_real = y != padding
    nll = log_sum - z_y
    loss = nll + eps_ls * (z_y - z_sum / v)
    tl.store(nll_pointer + row, tl.where(is_real, nll, 0.0))
    tl.store(loss_pointer + row, tl.where(is_real, loss, 0.0))
    if differentiate:
        for start in range(0, v, block):
            at = start + tl.arange(0, block)
            z = tl.load(logits_pointer + at, mask=at < v, other=0.0).to(tl.float32)
            aim = tl.where(at == y, 1 - eps_ls, 0.0) + eps_ls / v
            d_z = tl.where(is_real, tl.exp(z - log_sum) - aim, 0.0)
            tl.store(logits_pointer + at, d_z.to(logits_pointer.dtype.element_ty), mask=at < v)
