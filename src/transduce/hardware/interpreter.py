"""How long Python itself keeps a thread waiting."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TURN_S = 0.001
"""How long a thread may keep another waiting: Python's own 5 ms add up."""


@contextmanager
def short_pauses() -> Iterator[None]:
    """Let threads change often, and keep the garbage collector from what there is now.

    Whatever waits for a GPU, or for a request, has to go on at once. The collector would search all
    of torch again whenever many objects have been made: in translating a file, that is a quarter of
    the time beside the search.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(TURN_S)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before)
