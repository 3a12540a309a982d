"""What the process keeps: freed memory in training, but not in long streams; compiled products."""

import ctypes
import sys
from collections.abc import Callable
from typing import Any

COMPILED_PRODUCTS = 128
"""Products with packed weights that stay compiled; a search needs about ten at a time."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # from glibc's malloc.h


def keep_freed_memory() -> None:
    """Keep freed memory in the process for the next request.

    Training on the CPU frees and allocates the same large tensors at every step. By default glibc
    returns them to the system, which clears each page before handing it out again: 5 % of a step
    of the small preset. Does nothing with other C libraries.
    """
    mallopt = _c_function("mallopt")
    if mallopt is not None:
        mallopt(_MMAP_MAX, 0)  # no block gets a mapping of its own, which freeing would unmap
        mallopt(_TRIM_THRESHOLD, -1)  # the heap does not shrink


def reuse_freed_blocks() -> None:
    """Take blocks of up to 32 MiB from the heap, where they are reused, from the start.

    glibc maps large blocks one by one at first, and each new mapping is cleared page by page. It
    raises the limit to the largest block it has seen freed, but only up to 32 MiB: until then, a
    search that needs slightly larger logits than keys pays for new pages at every step, a tenth
    of the time of 64 sentences of the small preset. With another C library nothing is done.
    """
    mallopt = _c_function("mallopt")
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, 32 << 20)
        mallopt(_TRIM_THRESHOLD, 64 << 20)  # as glibc sets it: twice as much


def release_freed_memory() -> None:
    """Return freed memory to the system.

    Searches free tensors of many different sizes, and glibc keeps the gaps between those still in
    use: after 500,000 lines, gaps were more than half of the process's memory. Does nothing with
    other C libraries.
    """
    trim = _c_function("malloc_trim")
    if trim is not None:
        trim(0)


def bound_compiled_products() -> None:
    """Keep few of the products that oneDNN compiles, unless the environment says how many.

    It compiles a product with packed weights for each number of rows, in half a millisecond and
    half a megabyte, and keeps 1,024 of them; torch keeps as many again. Sentences of all lengths
    make all numbers of rows: memory grew by half a gigabyte, whatever the size of the model. Has
    an effect only before the first such product.
    """
    setenv = _c_function("setenv")
    if setenv is not None:
        for name in (b"ONEDNN_PRIMITIVE_CACHE_CAPACITY", b"LRU_CACHE_CAPACITY"):
            setenv(name, str(COMPILED_PRODUCTS).encode(), 0)  # 0: what is set stays


def _c_function(name: str) -> Callable[..., Any] | None:
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None), name, None)
