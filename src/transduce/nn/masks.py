"""Which keys a query may look at: boolean tensors, True = may look, broadcast to [B, h, T, S]."""

import torch
from torch import Tensor


def padding_allowed(ids: Tensor, pad_id: int) -> Tensor:
    """Every query may look at every real token.

    A sentence of only padding may look at all of it: a softmax over nothing is NaN as written, 0 in
    most kernels and neither in cuDNN's.
    """
    real = ids != pad_id  # [B, S]
    allowed = real | ~real.any(dim=1, keepdim=True)  # [B, S]
    return allowed[:, None, None, :]  # [B, 1, 1, S]


def causal_allowed(length: int, *, device: torch.device | None = None) -> Tensor:
    """Position i may look at positions ≤ i (§3.2.3)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()  # [T, T]
