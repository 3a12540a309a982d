"""Whether our own kernels may stand in for torch's."""

import importlib.util

import torch
from torch import Tensor

HAS_TRITON = importlib.util.find_spec("triton") is not None
MAX_QUERIES = 16
"""More than so many queries to one head are left to torch's fused attention."""
MAX_PLACES = 2**14
"""So many places of a sentence, positions times hypotheses, are surveyed in one program."""


def runs_kernels(x: Tensor) -> bool:
    """Say whether x lies on a CUDA device and nobody will ever ask for a gradient."""
    return HAS_TRITON and x.is_cuda and torch.is_inference_mode_enabled()
