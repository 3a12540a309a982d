"""What torch's attention kernels return for a query without keys, and what avoiding it costs.

    python benchmarks/masked_rows.py

The reason why `transduce.nn.mixers.masks` lets a sentence of only padding attend to its padding.
"""

import math
import timeit

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

KERNELS = [
    SDPBackend.MATH,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.CUDNN_ATTENTION,
]


def as_written(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
    """Eq. 1 with −∞ for masked keys."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    return scores.masked_fill(~allowed, -math.inf).softmax(dim=-1) @ v


def describe(context: Tensor, v: Tensor) -> str:
    """Describe the context that the query got."""
    if context.isnan().any():
        return "NaN"
    if (context == 0).all():
        return "zeros"
    mean = v.mean(dim=-2, keepdim=True).expand_as(context)
    return "the mean of v" if torch.allclose(context, mean, atol=0.02) else "something else"


def show_kernels(device: str, dtype: torch.dtype) -> None:
    """Print what each kernel returns, or that it does not support such inputs."""
    q, k, v = torch.randn(3, 2, 4, 8, 64, device=device, dtype=dtype)
    nowhere = torch.zeros(2, 1, 8, 8, dtype=torch.bool, device=device)
    print(f"{device:4} {dtype}: as written: {describe(as_written(q, k, v, nowhere), v)}")
    for kernel in KERNELS:
        try:
            with sdpa_kernel(kernel):
                context = F.scaled_dot_product_attention(q, k, v, attn_mask=nowhere)
        except RuntimeError:
            continue
        print(f"{device:4} {dtype}: {kernel.name.lower()}: {describe(context, v)}")


def show_costs() -> None:
    """Print how much longer one token's attention takes with each way to avoid such rows."""
    torch.set_num_threads(1)
    q, k, v = torch.randn(3, 1, 4, 1, 64)
    allowed = torch.ones(1, 1, 1, 1, dtype=torch.bool)

    def plain() -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)

    def zeroed() -> Tensor:
        return plain().masked_fill(~allowed.any(dim=-1, keepdim=True), 0.0)

    def chosen() -> Tensor:
        with sdpa_kernel(KERNELS[:3]):
            return plain()

    times = {
        f.__name__: min(timeit.repeat(f, number=2000, repeat=7)) for f in (plain, zeroed, chosen)
    }
    for name, seconds in times.items():
        print(f"{name}: {seconds / times['plain']:.1f} times the attention alone")


def main() -> None:
    """Try every device of this machine."""
    for device in ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
        for dtype in (torch.float32, torch.bfloat16):
            show_kernels(device, dtype)
    show_costs()


if __name__ == "__main__":
    main()
