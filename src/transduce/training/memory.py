"""Memory of the process, as far as training's speed depends on it."""

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # from glibc's malloc.h


def keep_freed_memory() -> None:
    """Ask the C library to keep freed memory for the next request.

    Training on the CPU frees and takes the same large tensors at every step. glibc would give them
    back to the system, which clears each page before it lends it again: 5 % of a step of the small
    preset. Where the library is another one, nothing is done.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_MAX, 0)  # no block is a mapping of its own, undone when it is freed
        mallopt(_TRIM_THRESHOLD, -1)  # the heap does not shrink
