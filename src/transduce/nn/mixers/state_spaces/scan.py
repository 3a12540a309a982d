"""h_t = a_t · h_(t−1) + b_t for all positions at once, element by element, and its gradient.

The positions are cut into about sqrt(n) chunks. All chunks advance together, as if each began with
a state of 0; then the states at their ends are joined one after the other. That is 2 · sqrt(n)
steps of a few operations on large tensors, instead of n on small ones, and O(n) work in all.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def scan(decay: Tensor, inputs: Tensor, first: Tensor | None = None) -> Tensor:
    """Return the states of all positions, from decays and inputs of one shape, [B, T, …].

    `first`, [B, …], is the state before the first position; without it, 0.
    """
    if first is not None:
        begun = inputs[:, :1] + decay[:, :1] * first[:, None]
        inputs = torch.cat([begun, inputs[:, 1:]], dim=1)
    states: Tensor = _scan(decay, inputs)
    return states


@torch.library.custom_op("transduce::scan", mutates_args=())
def _scan(decay: Tensor, inputs: Tensor) -> Tensor:
    length = inputs.size(1)
    size = math.isqrt(length - 1) + 1
    rest = -length % size
    a, b = (_chunks(x, size, rest) for x in (decay, inputs))  # each [size, B, chunks, …]
    states, products = torch.empty_like(b), torch.empty_like(a)
    states[0], products[0] = b[0], a[0]
    for at in range(1, size):
        torch.addcmul(b[at], a[at], states[at - 1], out=states[at])
        torch.mul(a[at], products[at - 1], out=products[at])
    before = torch.zeros_like(states[0])  # [B, chunks, …], the state before each chunk
    for chunk in range(1, before.size(1)):
        last = chunk - 1
        torch.addcmul(
            states[-1, :, last], products[-1, :, last], before[:, last], out=before[:, chunk]
        )
    states.addcmul_(products, before)
    return states.permute(1, 2, 0, *range(3, states.dim())).flatten(1, 2)[:, :length].contiguous()


def _chunks(x: Tensor, size: int, rest: int) -> Tensor:
    padded = F.pad(x, (*[0, 0] * (x.dim() - 2), 0, rest))
    chunks = padded.view(x.size(0), -1, size, *x.shape[2:])
    return chunks.permute(2, 0, 1, *range(3, chunks.dim())).contiguous()


@_scan.register_fake
def _(decay: Tensor, inputs: Tensor) -> Tensor:
    del decay
    return torch.empty_like(inputs, memory_format=torch.contiguous_format)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], output)


def _backward(ctx: Any, d_states: Tensor) -> tuple[Tensor, Tensor]:
    """Carry the gradient from each state to the one before it: the same scan, from the end."""
    decay, states = ctx.saved_tensors
    later = torch.cat([decay[:, 1:], torch.zeros_like(decay[:, :1])], dim=1)
    d_inputs = _scan(later.flip(1), d_states.flip(1)).flip(1)
    earlier = torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], dim=1)
    return d_inputs * earlier, d_inputs


_scan.register_autograd(_backward, setup_context=_keep)
