"""Work of a CUDA device that is recorded as a graph, to be launched again at once."""

from collections.abc import Callable
from contextlib import suppress

import torch


def record(work: Callable[[], object], aside: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
    """Record what some work asks of the device, on a stream where nothing else happens.

    Its kernels must have been loaded before: do it once without recording.
    """
    graph = torch.cuda.CUDAGraph()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            work()
        except BaseException:
            with suppress(RuntimeError):  # what went wrong first is what matters
                graph.capture_end()
            raise
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(aside)
    return graph
