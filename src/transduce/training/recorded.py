"""Work of a CUDA device that is recorded once and then played again."""

from collections.abc import Callable

import torch
from torch import Tensor

from transduce.nn.recording import record


class Recorded:
    """A function of tensors of always the same shapes, called often.

    Its kernels are recorded when it is called for the second time: a first time compiles and loads
    them. From then on the host only says: again. Whatever else the function reads or writes must
    stay where it is.
    """

    def __init__(self, function: Callable[..., Tensor], aside: torch.cuda.Stream) -> None:
        """Take the function, and a stream to record it on."""
        self._function = function
        self._aside = aside
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: tuple[Tensor, ...] = ()
        self._output: Tensor | None = None

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Compute; the inputs may still lie in pinned memory."""
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
        self._aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._aside):
            output = self._function(*self._inputs)
        torch.cuda.current_stream().wait_stream(self._aside)
        return output

    def _record(self) -> torch.cuda.CUDAGraph:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()  # a recording has memory of its own
        return record(self._compute, self._aside)

    def _compute(self) -> None:
        self._output = self._function(*self._inputs)
