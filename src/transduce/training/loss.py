"""The label-smoothed loss (§5.4), together with the projection to the vocabulary.

All logits of a batch would be the largest tensor of a training step by far: 25,000 tokens over
37,000 entries are 3.7 GB, and their gradient as much again. Here they exist a chunk of rows at a
time, and each chunk gives its share of the gradients before the next one takes its place.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from transduce.nn.device import kernels_work
from transduce.nn.linear import in_whole_waves
from transduce.text.special_ids import PAD_ID

CHUNK_ELEMENTS = {"cpu": 2**25, "cuda": 2**28}
"""Logits held at a time, by the kind of device. Each chunk reads and writes the gradient of the
whole projection: on two cores with 37,000 entries, an eighth of this costs a fifth more time."""

CHUNK_BYTES_IN_PLACE = 2**30
"""The most that they take where a kernel turns them into their gradient and no copy is made."""

ALIGNED = 8
"""Numbers of two bytes that a CUDA device reads at once."""


def smoothed_loss(
    states: Tensor,  # [..., d_model]
    projection: Tensor,  # [V, d_model]
    targets: Tensor,  # [...]
    *,
    eps_ls: float,
    chunk_elements: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (smoothed loss, negative log-likelihood), each summed over the real tokens.

    The aim is the distribution (1 − ε) one-hot + ε / V over all V entries, as in Szegedy et al.,
    whom §5.4 cites, and in torch; tensor2tensor spreads ε over the V − 1 others. Padding does not
    count. The first result can be differentiated once, the second not at all.

    Products are in the dtype of autocast or else of the states; softmax, sums and the gradient of
    the projection are in float32, or in float64 where the states are.
    """
    states, targets = states.flatten(0, -2), targets.flatten()  # [N, d_model], [N]
    if states.device.type == "cpu":
        # A GPU's padding stays, with weight 0: to leave it out, the host would have to wait until
        # the device has counted it. Batches of like lengths have little.
        real = (targets != PAD_ID).nonzero().squeeze(1)
        states, targets = states[real], targets[real]
    if torch.is_grad_enabled() and (states.requires_grad or projection.requires_grad):
        compare = _ProjectAndCompare.apply
        loss, nll = compare(states, projection, targets, eps_ls, chunk_elements)  # type: ignore[no-untyped-call]
    else:
        loss, nll, _ = _by_chunks(states, projection, targets, eps_ls, chunk_elements, None)
    return loss, nll


class _ProjectAndCompare(torch.autograd.Function):
    """Computes the gradients with the loss, while the logits are there; backward scales them."""

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
        loss, nll, d_projection = _by_chunks(
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


def _by_chunks(
    states: Tensor,  # [N, d_model]
    projection: Tensor,  # [V, d_model]
    targets: Tensor,  # [N]
    eps_ls: float,
    chunk_elements: int | None,
    d_states: Tensor | None,  # [N, d_model]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the two sums and the gradient of the projection.

    The gradient of the states is written where there is room for it; without, there is none at all.
    """
    device = states.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype
    with torch.autocast(device, enabled=False):
        w = projection.to(dtype)
        in_place = w.is_cuda and w.dtype != torch.float64 and kernels_work()
        chunk_of: Callable[..., tuple[Tensor, Tensor]]
        if in_place:
            # Rows of logits then begin where a device reads fastest.
            w = F.pad(w, (0, 0, 0, -w.size(0) % ALIGNED))  # [W, d_model]
            entries = projection.size(0)
            usual = CHUNK_BYTES_IN_PLACE // w.element_size()
            chunk_of = partial(_one_chunk_in_place, w=w, entries=entries, eps_ls=eps_ls)
        else:
            w_mean = w.mean(dim=0, dtype=_sum_dtype(states))  # [d_model]
            usual = CHUNK_ELEMENTS.get(device, CHUNK_ELEMENTS["cuda"])
            chunk_of = partial(_one_chunk, w=w, w_mean=w_mean, eps_ls=eps_ls)
        loss, nll = torch.zeros(2, dtype=_sum_dtype(states), device=w.device)
        d_w = torch.zeros_like(w if d_states is not None else w[:0], dtype=loss.dtype)
        most = max(1, (chunk_elements or usual) // w.size(0))
        size = in_whole_waves(most, w.size(1), w.device)
        for start in range(0, targets.size(0), size):
            rows = slice(start, start + size)
            x, y = states[rows].to(dtype), targets[rows, None]  # [n, d_model], [n, 1]
            room = None if d_states is None else (d_states[rows], d_w)
            chunk_loss, chunk_nll = chunk_of(x, y, room)
            loss, nll = loss + chunk_loss, nll + chunk_nll
        if d_states is not None and not in_place:
            x_sum = (states * (targets != PAD_ID)[:, None]).sum(dim=0, dtype=loss.dtype)
            d_w.sub_(eps_ls / w.size(0) * x_sum)
    return loss, nll, d_w[: projection.size(0)]


def _one_chunk(
    x: Tensor,  # [n, d_model]
    y: Tensor,  # [n, 1]
    gradients: tuple[Tensor, Tensor] | None,
    *,
    w: Tensor,  # [V, d_model]
    w_mean: Tensor,  # [d_model]
    eps_ls: float,
) -> tuple[Tensor, Tensor]:
    """Return both sums of some rows; write or add to the gradients where there is room.

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


def _one_chunk_in_place(
    x: Tensor,  # [n, d_model]
    y: Tensor,  # [n, 1]
    gradients: tuple[Tensor, Tensor] | None,
    *,
    w: Tensor,  # [W, d_model]
    entries: int,
    eps_ls: float,
) -> tuple[Tensor, Tensor]:
    """Do the same on a CUDA device, where a kernel turns logits into their gradient.

    Of the rows of w, zeros may follow those that are entries.
    """
    from transduce.training.kernels import compare

    z = x @ w.t()  # [n, W]
    differentiate = gradients is not None
    loss, nll = compare(z, y.squeeze(1), eps_ls, entries=entries, differentiate=differentiate)
    if gradients:
        d_x, d_w = gradients
        d_x.copy_(z @ w)
        if z.dtype == d_w.dtype:
            d_w.addmm_(z.t(), x)
        else:
            torch.addmm(d_w, z.t(), x, out_dtype=d_w.dtype, out=d_w)
    return loss.sum(), nll.sum()


def _product(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """Multiply matrices into a dtype that may be finer than theirs."""
    if a.dtype == dtype or not a.is_cuda:
        return (a @ b).to(dtype)
    return torch.mm(a, b, out_dtype=dtype)


def _sum_dtype(states: Tensor) -> torch.dtype:
    return torch.promote_types(states.dtype, torch.float32)
