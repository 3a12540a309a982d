"""Whether our own kernels may stand in for torch's."""

import importlib.util
import warnings
from functools import cache

import torch
from torch import Tensor, nn

MAX_QUERIES = 16
"""More than so many queries to one head are left to torch's fused attention."""
MAX_WIDTH = 128
"""Wider heads need more of a multiprocessor's memory than most devices have."""
MAX_PLACES = 2**14
"""So many places of a sentence, positions times hypotheses, are surveyed in one program."""


def runs_kernels(x: Tensor) -> bool:
    """Say whether x lies on a CUDA device and nobody will ever ask for a gradient.

    Under autocast torch decides about types, kernel by kernel, and its own are taken.
    """
    if torch.compiler.is_compiling() or not x.is_cuda:
        return False
    is_ours = torch.is_inference_mode_enabled() and not torch.is_autocast_enabled("cuda")
    return is_ours and kernels_work()


def searches_on_cpu(x: Tensor) -> bool:
    """Say whether x lies on the CPU and nobody will ever ask for a gradient."""
    if torch.compiler.is_compiling() or not x.is_cpu:
        return False
    return torch.is_inference_mode_enabled()


def fits_kernels(queries: int, d_k: int, d_v: int, dtype: torch.dtype) -> bool:
    """Say whether attention of this shape is what our kernels are made for."""
    is_known = dtype in (torch.float32, torch.bfloat16, torch.float16)
    return is_known and queries <= MAX_QUERIES and max(d_k, d_v) <= MAX_WIDTH


@cache
def kernels_work() -> bool:
    """Try one: Triton needs a compiler and a device that it knows."""
    if importlib.util.find_spec("triton") is None:
        return False
    try:
        from transduce.nn.kernels import add_norm

        x = torch.ones(1, 16, device="cuda")
        add_norm(x, x, nn.LayerNorm(16, device="cuda"))
    except Exception as fault:  # noqa: BLE001 - whatever it is, torch's kernels do it too
        warnings.warn(f"computing more slowly, without Triton: {fault}", stacklevel=2)
        return False
    return True
