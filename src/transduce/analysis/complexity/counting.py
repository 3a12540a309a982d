"""What does not depend on the machine: operations, and how many must follow one another."""

import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from transduce.analysis.complexity.layers import LayerKind, LayerShape, drawn

_FREE = ("aten::_unsafe_view", "aten::detach", "aten::lift_fresh")
"""Operations that compute nothing, besides views."""


def count_operations(kind: LayerKind, n: int, shape: LayerShape) -> int:
    """Count the multiplications and additions of matrix products in a forward pass.

    The tensors have shapes but no data, so no size is too large.
    """
    with FakeTensorMode(), _without_fused_attention():
        layer = kind.traced(shape)
        with FlopCounterMode(display=False) as counter:
            layer(torch.empty(1, n, shape.d))
    return int(counter.get_total_flops())


def longest_chain(kind: LayerKind, n: int, shape: LayerShape) -> tuple[int, int]:
    """Return how many operations must follow one another, forward and in both passes.

    An operation is a call of torch that computes something. A product of matrices or a softmax is
    one, however many numbers it adds up, as in the paper; a view is none.
    """
    layer = drawn(kind.traced(shape), seed=0)
    x = torch.zeros(1, n, shape.d, requires_grad=True)
    with _without_fused_attention(), ChainLengths() as chains:
        outputs = layer(x)
        forward = chains.of([outputs])
        outputs.backward(torch.ones_like(outputs))
        both = chains.of([x.grad, *(parameter.grad for parameter in layer.parameters())])
    return forward, both


class ChainLengths(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows every operation: a result is one further than the furthest tensor it needs."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._lengths: dict[int, int] = {}
        self._kept: list[torch.UntypedStorage] = []  # so that no other gets the same number

    def of(self, tensors: Iterable[Tensor | None]) -> int:
        """Return the length of the longest chain that ends in one of these."""
        return max(self._length(tensor) for tensor in tensors if tensor is not None)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        del types
        needed = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        length = max((self._length(tensor) for tensor in needed), default=0)
        if needed and not (func.is_view or func._schema.name in _FREE):
            length += 1
        results = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(results):
            if isinstance(tensor, Tensor):
                self._extend(tensor, length)
        return results

    def _length(self, tensor: Tensor) -> int:
        return self._lengths.get(tensor.untyped_storage()._cdata, 0)

    def _extend(self, tensor: Tensor, length: int) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._lengths:
            self._kept.append(storage)
        self._lengths[storage._cdata] = max(length, self._length(tensor))


def one_after_another(intervals: Iterable[tuple[float, float]]) -> int:
    """Return how many of these times, each from start to end, did not overlap, at most."""
    count, free_from = 0, float("-inf")
    for start, end in sorted(intervals, key=lambda interval: interval[1]):
        if start >= free_from:
            count, free_from = count + 1, end
    return count


def kernel_times(layer: nn.Module, x: Tensor) -> list[tuple[float, float]]:
    """Return when each kernel of a forward and a backward pass ran on the GPU, by the profiler."""
    from torch.profiler import ProfilerActivity, profile

    layer(x).sum().backward()  # so that what is done once is done
    torch.cuda.synchronize(x.device)
    with without_profiler_messages():
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            outputs = layer(x)
            outputs.backward(torch.ones_like(outputs))
            torch.cuda.synchronize(x.device)
        return [
            (event.time_range.start, event.time_range.end)
            for event in profiler.events()
            if event.device_type.name == "CUDA" and not event.name.startswith(("Memcpy", "Memset"))
        ]


@contextmanager
def without_profiler_messages() -> Iterator[None]:
    """Drop what torch's profiler warns of and writes to standard error, whatever the log level."""
    if sys.stderr is not None:
        sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _without_fused_attention() -> AbstractContextManager[None]:
    return sdpa_kernel(SDPBackend.MATH)
