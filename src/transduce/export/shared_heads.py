"""Heads of keys and values that several heads of queries share, written out for each of them.

A format that has as many of both can express grouped-query and multi-query attention all the same:
with equal rows in the projections of keys and values. The outputs are the same; what sharing saves
in memory is lost.
"""

from collections.abc import Mapping

from torch import Tensor

SHARED = (
    "attention.w_k.weight",
    "attention.w_k.bias",
    "attention.w_v.weight",
    "attention.w_v.bias",
)


def repeat_rows(tensor: Tensor, *, kv_heads: int, h: int) -> Tensor:
    """Repeat the rows of each head in a projection of keys or values, [kv_heads·d, …]."""
    by_head = tensor.reshape(kv_heads, -1, *tensor.shape[1:])
    return by_head.repeat_interleave(h // kv_heads, dim=0).flatten(0, 1)


def with_repeated_heads(
    weights: Mapping[str, Tensor], *, kv_heads: int, h: int
) -> Mapping[str, Tensor]:
    """Return the weights of a model as if no heads were shared."""
    if kv_heads == h:
        return weights
    return {
        name: repeat_rows(tensor, kv_heads=kv_heads, h=h) if name.endswith(SHARED) else tensor
        for name, tensor in weights.items()
    }
