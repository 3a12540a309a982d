"""Whether our own kernels can be used instead of torch's."""

import importlib
import importlib.util
import warnings
from functools import cache

import torch
from torch import Tensor, nn

MAX_QUERIES = 16
"""The most queries to one head for our kernels; torch's fused attention takes more."""
MAX_WIDTH = 128
"""The widest head; wider ones need more of a multiprocessor's memory than most devices have."""
MAX_SLOTS = 2**14
"""The most slots of a sentence, positions times hypotheses, that one program goes through."""


def in_cuda_inference(x: Tensor) -> bool:
    """Return whether x is on a CUDA device, in inference mode, and our kernels work there.

    Not under autocast: there torch chooses the types, kernel by kernel, and its own are used.
    """
    if torch.compiler.is_compiling() or not x.is_cuda:
        return False
    is_ours = torch.is_inference_mode_enabled() and not torch.is_autocast_enabled("cuda")
    return is_ours and triton_works()


def in_cpu_inference(x: Tensor) -> bool:
    """Return whether x is on the CPU, in inference mode."""
    if torch.compiler.is_compiling() or not x.is_cpu:
        return False
    return torch.is_inference_mode_enabled()


def kernels_support(queries: int, d_k: int, d_v: int, dtype: torch.dtype) -> bool:
    """Return whether our kernels for search take attention of this shape."""
    is_known = dtype in (torch.float32, torch.bfloat16, torch.float16)
    return is_known and queries <= MAX_QUERIES and max(d_k, d_v) <= MAX_WIDTH


@cache
def triton_works() -> bool:
    """Try one kernel: Triton needs a compiler and a device that it supports."""
    if importlib.util.find_spec("triton") is None:
        return False
    try:
        from transduce.nn.kernels.search import add_norm

        x = torch.ones(1, 16, device="cuda")
        add_norm(x, x, nn.LayerNorm(16, device="cuda"))
    except Exception as fault:  # noqa: BLE001 - whatever it is, torch's kernels still work
        warnings.warn(f"Triton does not work here, so this will be slower: {fault}", stacklevel=2)
        return False
    return True


def register_training_kernels() -> None:
    """Make our operators known to torch by name.

    Compiled code that an earlier process left in torch's cache calls them without importing them.
    """
    for name in ("linear", "norm", "packed_attention"):
        importlib.import_module(f"transduce.nn.kernels.{name}")
