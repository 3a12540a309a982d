"""Memory that a long stream of sentences leaves behind."""

import ctypes
import sys


def give_back_memory() -> None:
    """Ask the C library to give freed memory back to the system.

    Searches free tensors of ever new sizes, and glibc keeps what lies between those still in use:
    after 500,000 lines more than half of the process was such gaps. Where the library is another
    one, nothing is done.
    """
    if sys.platform != "linux":
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
