"""Recording work of a CUDA device as a graph, which replays it with a single launch."""

import warnings
from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor


def record(work: Callable[[], object], aside: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
    """Record the kernels that `work` launches, on the stream `aside`, which nothing else may use.

    Warm up first: kernels must be loaded before they are recorded, so run `work` once without.
    """
    graph = torch.cuda.CUDAGraph()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            work()
        except BaseException:
            # The first error is the one to report, not that the graph is empty.
            with suppress(RuntimeError), warnings.catch_warnings(action="ignore"):
                graph.capture_end()
            raise
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(aside)
    return graph


class GraphedFunction:
    """A function of tensors of constant shapes, recorded at its second call and then replayed.

    The first call compiles and loads its kernels. Whatever else the function reads or writes must
    stay at the same address.
    """

    def __init__(self, function: Callable[..., Tensor], stream: torch.cuda.Stream) -> None:
        """Take the function, and a stream to record it on."""
        self._function = function
        self._stream = stream
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: tuple[Tensor, ...] = ()
        self._output: Tensor | None = None

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Compute the function; its inputs may be in pinned memory."""
        if self._output is None:
            self._output = self._first(*inputs)
            return self._output
        if self._graph is None:
            self._graph = self._record()
        for kept, given in zip(self._inputs, inputs, strict=True):
            kept.copy_(given, non_blocking=True)
        self._graph.replay()
        return self._output.clone()

    def _first(self, *inputs: Tensor) -> Tensor:
        self._inputs = tuple(given.to("cuda", copy=True) for given in inputs)
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            output = self._function(*self._inputs)
        torch.cuda.current_stream().wait_stream(self._stream)
        return output

    def _record(self) -> torch.cuda.CUDAGraph:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()  # a recording has memory of its own
        return record(self._compute, self._stream)

    def _compute(self) -> None:
        self._output = self._function(*self._inputs)
