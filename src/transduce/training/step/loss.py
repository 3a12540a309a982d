"""The label-smoothed loss (§5.4), together with the projection to the vocabulary.

All logits of a batch would be the largest tensor of a training step by far: 25,000 tokens over
37,000 entries are 3.7 GB, and their gradient as much again. Here they are computed for a chunk of
rows at a time, and each chunk adds its part of the gradients before the next one is computed.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from transduce.nn.kernels.available import triton_works
from transduce.nn.linear import rows_in_whole_waves
from transduce.text.special_ids import PAD_ID

CHUNK_ELEMENTS = {"cpu": 2**25, "cuda": 2**28}
"""Logits held at a time, by the kind of device. Each chunk reads and writes the gradient of the
whole projection: on two cores with 37,000 entries, an eighth of this costs a fifth more time."""

CHUNK_BYTES_IN_PLACE = 2**30
"""The same in bytes, where a kernel overwrites logits with their gradient and makes no copy."""

ALIGNED = 8
"""16-bit numbers that a CUDA device reads at once."""


def smoothed_loss(
    states: Tensor,  # [..., d_model]
    projection: Tensor,  # [V, d_model]
    targets: Tensor,  # [...]
    *,
    eps_ls: float,
    chunk_elements: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (smoothed loss, negative log-likelihood), each summed over the real tokens.

    The target distribution is (1 − ε) one-hot + ε / V over all V entries, as in Szegedy et al.,
    whom §5.4 cites, and in torch; tensor2tensor spreads ε over the V − 1 others. Padding does not
    count. The first result can be differentiated once, the second not at all.

    Products are in the dtype of autocast or else of the states; softmax, sums and the gradient of
    the projection are in float32, or in float64 where the states are.
    """
    states, targets = states.flatten(0, -2), targets.flatten()  # [N, d_model], [N]
    if states.device.type == "cpu":
        # On a GPU, padding stays, with weight 0: to leave it out, the host would have to wait
        # until the device has counted it. Batches of similar lengths have little.
        real = (targets != PAD_ID).nonzero().squeeze(1)
        states, targets = states[real], targets[real]
    if torch.is_grad_enabled() and (states.requires_grad or projection.requires_grad):
        compute = _ProjectedLoss.apply
        loss, nll = compute(states, projection, targets, eps_ls, chunk_elements)  # type: ignore[no-untyped-call]
    else:
        loss, nll, _ = _chunked_loss(states, projection, targets, eps_ls, chunk_elements, None)
    return loss, nll


class _ProjectedLoss(torch.autograd.Function):
    """Computes the gradients together with the loss, from the same logits; backward scales them."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        projection: Tensor,
        targets: Tensor,
        eps_ls: float,
        chunk_elements: int | None,
    ) -> tuple[Tensor, Tensor]:
        d_states = torch.empty_like(states)
        loss, nll, d_projection = _chunked_loss(
            states, projection, targets, eps_ls, chunk_elements, d_states
        )
        ctx.save_for_backward(d_states, d_projection.to(projection.dtype))
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor, _d_nll: Tensor) -> tuple[Tensor | None, ...]:
        d_states, d_projection = ctx.saved_tensors
        return d_states * d_loss, d_projection * d_loss, None, None, None


def _chunked_loss(
    states: Tensor,  # [N, d_model]
    projection: Tensor,  # [V, d_model]
    targets: Tensor,  # [N]
    eps_ls: float,
    chunk_elements: int | None,
    d_states: Tensor | None,  # [N, d_model]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the two sums and the gradient of the projection.

    The gradient of the states is written to `d_states`; without it, no gradient is computed.
    """
    device = states.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype
    with torch.autocast(device, enabled=False):
        w = projection.to(dtype)
        in_place = w.is_cuda and w.dtype != torch.float64 and triton_works()
        loss_of_chunk: Callable[..., tuple[Tensor, Tensor]]
        if in_place:
            # Rows of logits are then aligned as the device reads them fastest.
            w = F.pad(w, (0, 0, 0, -w.size(0) % ALIGNED))  # [W, d_model]
            entries = projection.size(0)
            elements = CHUNK_BYTES_IN_PLACE // w.element_size()
            loss_of_chunk = partial(_chunk_loss_in_place, w=w, entries=entries, eps_ls=eps_ls)
        else:
            w_mean = w.mean(dim=0, dtype=_sum_dtype(states))  # [d_model]
            elements = CHUNK_ELEMENTS.get(device, CHUNK_ELEMENTS["cuda"])
            loss_of_chunk = partial(_chunk_loss, w=w, w_mean=w_mean, eps_ls=eps_ls)
        loss, nll = torch.zeros(2, dtype=_sum_dtype(states), device=w.device)
        d_w = torch.zeros_like(w if d_states is not None else w[:0], dtype=loss.dtype)
        most = max(1, (chunk_elements or elements) // w.size(0))
        size = rows_in_whole_waves(most, w.size(1), w.device)
        for start in range(0, targets.size(0), size):
            rows = slice(start, start + size)
            x, y = states[rows].to(dtype), targets[rows, None]  # [n, d_model], [n, 1]
            gradients = None if d_states is None else (d_states[rows], d_w)
            chunk_loss, chunk_nll = loss_of_chunk(x, y, gradients)
            loss, nll = loss + chunk_loss, nll + chunk_nll
        if d_states is not None and not in_place:
            x_sum = (states * (targets != PAD_ID)[:, None]).sum(dim=0, dtype=loss.dtype)
            d_w.sub_(eps_ls / w.size(0) * x_sum)
    return loss, nll, d_w[: projection.size(0)]


def _chunk_loss(
    x: Tensor,  # [n, d_model]
    y: Tensor,  # [n, 1]
    gradients: tuple[Tensor, Tensor] | None,
    *,
    w: Tensor,  # [V, d_model]
    w_mean: Tensor,  # [d_model]
    eps_ls: float,
) -> tuple[Tensor, Tensor]:
    """Return both sums over a chunk; with `gradients`, write that of x and add to that of w.

    With z a row's logits, m their largest, s = Σ exp(z − m) and L the logarithm of Σ exp z:
    nll = L − z_y and loss = L − (1 − ε) z_y − ε mean(z) = nll + ε (z_y − mean(z)). The gradient
    is exp(z − m) / s − (1 − ε) one-hot − ε / V. The division and the last term are the same for
    all of a row: they are applied to the products with w and x, which are smaller (the last term of
    the product with x, to the end result).
    """
    real = y != PAD_ID  # [n, 1]
    z = _product(x, w.t(), w_mean.dtype)  # [n, V]
    z_y = z.gather(1, y)  # [n, 1]
    z_mean = x.to(z.dtype) @ w_mean[:, None]  # [n, 1]
    m = z.amax(dim=1, keepdim=True)  # [n, 1]
    s = z.sub_(m).exp_().sum(dim=1, keepdim=True)  # [n, 1]
    nll = m + s.log() - z_y  # [n, 1]
    loss = nll + eps_ls * (z_y - z_mean)  # [n, 1]
    if gradients:
        d_x, d_w = gradients
        d_z = z.scatter_add_(1, y, (eps_ls - 1) * s).to(x.dtype)  # [n, V]
        d_x.copy_((_product(d_z, w, z.dtype) / s - eps_ls * w_mean) * real)
        x_by_s = (x * (real / s)).to(x.dtype)  # [n, d_model]
        if x.dtype == d_w.dtype:
            d_w.addmm_(d_z.t(), x_by_s)
        else:
            d_w += _product(d_z.t(), x_by_s, d_w.dtype)
    return (loss * real).sum(), (nll * real).sum()


def _chunk_loss_in_place(
    x: Tensor,  # [n, d_model]
    y: Tensor,  # [n, 1]
    gradients: tuple[Tensor, Tensor] | None,
    *,
    w: Tensor,  # [W, d_model]
    entries: int,
    eps_ls: float,
) -> tuple[Tensor, Tensor]:
    """Compute the same on a CUDA device, where a kernel overwrites logits with their gradient.

    The first `entries` rows of w are vocabulary entries; rows of zeros may follow.
    """
    from transduce.training.step.loss_kernels import logits_loss

    z = x @ w.t()  # [n, W]
    differentiate = gradients is not None
    loss, nll = logits_loss(z, y.squeeze(1), eps_ls, entries=entries, differentiate=differentiate)
    if gradients:
        d_x, d_w = gradients
        d_x.copy_(z @ w)
        if z.dtype == d_w.dtype:
            d_w.addmm_(z.t(), x)
        else:
            torch.addmm(d_w, z.t(), x, out_dtype=d_w.dtype, out=d_w)
    return loss.sum(), nll.sum()


def _product(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """Multiply matrices; the result's dtype may be more precise than theirs."""
    if a.dtype == dtype or not a.is_cuda:
        return (a @ b).to(dtype)
    return torch.mm(a, b, out_dtype=dtype)


def _sum_dtype(states: Tensor) -> torch.dtype:
    return torch.promote_types(states.dtype, torch.float32)
