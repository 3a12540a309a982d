"""Time and memory of one layer, forward and backward, for one sentence."""

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from transduce.analysis.complexity.counting import without_profiler_messages
from transduce.analysis.complexity.layers import LayerKind, LayerShape, drawn
from transduce.analysis.complexity.records import LayerCost

MIN_RUNS, MAX_RUNS = 3, 20
SECONDS_PER_SIZE = 0.2
"""After `MIN_RUNS` runs, no more are made once they have taken this long."""


class LayerBench:
    """A layer on a device, with an input, ready to run forward and backward."""

    def __init__(
        self, kind: LayerKind, n: int, shape: LayerShape, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.kind, self.n, self.shape, self.device = kind, n, shape, device
        self.layer = drawn(kind.build(shape), seed=0).to(device, dtype)
        random = torch.Generator().manual_seed(0)
        sentence = torch.randn(1, n, shape.d, generator=random)
        self.x = sentence.to(device, dtype).requires_grad_()
        self.output_gradient = torch.ones_like(self.x, requires_grad=False)

    def measure(self) -> LayerCost:
        """Measure the fastest of several runs, then the memory of one more."""
        self._run()  # so that what is done once, such as choosing kernels, is done
        runs, started = [self._run()], time.perf_counter()
        while len(runs) < MAX_RUNS and (
            len(runs) < MIN_RUNS or time.perf_counter() - started < SECONDS_PER_SIZE
        ):
            runs.append(self._run())
        kept, peak = self._memory()
        return LayerCost(
            layer=self.kind.name,
            n=self.n,
            d=self.shape.d,
            forward_s=min(forward for forward, _ in runs),
            backward_s=min(backward for _, backward in runs),
            kept_bytes=kept,
            peak_bytes=peak,
        )

    def _run(self) -> tuple[float, float]:
        self._clear_gradients()
        start = self._now()
        outputs: Tensor = self.layer(self.x)
        middle = self._now()
        torch.autograd.backward(outputs, self.output_gradient)
        return middle - start, self._now() - middle

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def _clear_gradients(self) -> None:
        self.x.grad = None
        self.layer.zero_grad(set_to_none=True)

    def _memory(self) -> tuple[int, int]:
        self._clear_gradients()
        return memory_of_passes(self.layer, self.x, self.output_gradient)


def memory_of_passes(layer: nn.Module, x: Tensor, gradient: Tensor) -> tuple[int, int]:
    """Return the bytes held after a forward pass, and the most in forward and backward pass."""
    return (_cuda_memory if x.is_cuda else _host_memory)(layer, x, gradient)


def _cuda_memory(layer: nn.Module, x: Tensor, gradient: Tensor) -> tuple[int, int]:
    """Return both on a CUDA device, whose allocator counts."""
    before = torch.cuda.memory_allocated(x.device)
    torch.cuda.reset_peak_memory_stats(x.device)
    outputs = layer(x)
    kept = torch.cuda.memory_allocated(x.device) - before
    torch.autograd.backward(outputs, gradient)
    torch.cuda.synchronize(x.device)
    return kept, torch.cuda.max_memory_allocated(x.device) - before


def _host_memory(layer: nn.Module, x: Tensor, gradient: Tensor) -> tuple[int, int]:
    """Return both on the CPU, where torch's profiler sees every allocation."""
    outputs: list[Tensor] = []
    kept, peak_forward = allocated_bytes(lambda: outputs.append(layer(x)))
    _, peak_backward = allocated_bytes(lambda: torch.autograd.backward(outputs, [gradient]))
    return kept, max(peak_forward, kept + peak_backward)


def allocated_bytes(work: Callable[[], None]) -> tuple[int, int]:
    """Return how many bytes more are allocated after some work, and how many at most during it."""
    profiling = torch.autograd.profiler.profile(profile_memory=True)
    with without_profiler_messages(), profiling as profiler:
        work()
    assert profiler.kineto_results is not None
    changes = [
        (event.start_ns(), event.nbytes())
        for event in profiler.kineto_results.events()
        if event.name() == "[memory]"
    ]
    total = peak = 0
    for _, change in sorted(changes, key=lambda change: change[0]):
        total += change
        peak = max(peak, total)
    return total, peak
