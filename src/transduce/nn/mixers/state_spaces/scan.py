"""h_t = a_t · h_(t−1) + b_t for all positions at once, element by element, and its gradient.

Long sequences are cut into about sqrt(n) chunks. All chunks advance together, as if each began with
a state of 0; then the states at their ends are joined one after the other. That is 2 · sqrt(n)
steps of a few operations on large tensors, instead of n on small ones, and O(n) work in all.
"""

import math
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

SHORT = 64
"""Sequences up to this length are one chunk: for batches of sentences, few steps are enough."""


def scan(decay: Tensor, inputs: Tensor, first: Tensor | None = None) -> Tensor:
    """Return the states of all positions, from decays and inputs of one shape, [B, T, …].

    `first`, [B, …], is the state before the first position; without it, 0.
    """
    if first is not None:
        begun = inputs[:, :1] + decay[:, :1] * first[:, None]
        inputs = torch.cat([begun, inputs[:, 1:]], dim=1)
    states: Tensor = _scan(decay, inputs, False)
    return states


@torch.library.custom_op("transduce::scan", mutates_args=())
def _scan(decay: Tensor, inputs: Tensor, reverse: bool) -> Tensor:
    """Return the states, or with `reverse` those of h_t = a_t · h_(t+1) + b_t."""
    length = inputs.size(1)
    size = length if length <= SHORT else math.isqrt(length - 1) + 1
    a, b = (_chunks(x, size) for x in (decay, inputs))  # each [B, chunks, size, …]
    states = torch.empty_like(b)
    products = torch.empty_like(a) if a.size(1) > 1 else None
    _advance(a, b, states, products, reverse=reverse)
    if products is not None:
        states.addcmul_(products, _joined(states, products, reverse=reverse)[:, :, None])
    return states.flatten(1, 2)[:, :length].contiguous()


def _chunks(x: Tensor, size: int) -> Tensor:
    rest = -x.size(1) % size
    padded = F.pad(x, (*[0, 0] * (x.dim() - 2), 0, rest)) if rest else x.contiguous()
    return padded.view(x.size(0), -1, size, *x.shape[2:])


def _advance(
    a: Tensor, b: Tensor, states: Tensor, products: Tensor | None, *, reverse: bool
) -> None:
    """Compute the states of every chunk from 0, and the products of its decays up to each."""
    places = list(range(a.size(2)))[:: -1 if reverse else 1]
    states[:, :, places[0]] = b[:, :, places[0]]
    if products is not None:
        products[:, :, places[0]] = a[:, :, places[0]]
    for last, at in pairwise(places):
        torch.addcmul(b[:, :, at], a[:, :, at], states[:, :, last], out=states[:, :, at])
        if products is not None:
            torch.mul(a[:, :, at], products[:, :, last], out=products[:, :, at])


def _joined(states: Tensor, products: Tensor, *, reverse: bool) -> Tensor:
    """Return the state before each chunk, [B, chunks, …]."""
    end = 0 if reverse else -1
    of_chunks, decays = states[:, :, end], products[:, :, end]
    before = torch.zeros_like(of_chunks)
    for last, chunk in pairwise(list(range(before.size(1)))[:: -1 if reverse else 1]):
        torch.addcmul(of_chunks[:, last], decays[:, last], before[:, last], out=before[:, chunk])
    return before


@_scan.register_fake
def _(decay: Tensor, inputs: Tensor, reverse: bool) -> Tensor:
    del decay, reverse
    return torch.empty_like(inputs, memory_format=torch.contiguous_format)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, bool], output: Tensor) -> None:
    decay, _, ctx.reverse = inputs
    ctx.save_for_backward(decay, output)


def _backward(ctx: Any, d_states: Tensor) -> tuple[Tensor, Tensor, None]:
    """Carry the gradient from each state to the one before it: the same scan, from the end."""
    assert not ctx.reverse, "only the gradient is computed from the end"
    decay, states = ctx.saved_tensors
    later = torch.cat([decay[:, 1:], torch.zeros_like(decay[:, :1])], dim=1)
    d_inputs: Tensor = _scan(later, d_states, True)
    d_decay = torch.empty_like(decay)
    d_decay[:, 0] = 0
    torch.mul(d_inputs[:, 1:], states[:, :-1], out=d_decay[:, 1:])
    return d_decay, d_inputs, None


_scan.register_autograd(_backward, setup_context=_keep)
