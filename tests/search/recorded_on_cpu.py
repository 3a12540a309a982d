"""Recorded searches without a CUDA device: everything but the graph and the flags' journey."""

from typing import Any

from torch import Tensor

from transduce.search import recorded


class PlainSteps(recorded._RecordedSearch[Any]):
    """Replays no graph: every step is computed."""

    def advance(self) -> None:
        self._step()


class FlagsAtOnce:
    """Booleans that need not travel, but are still read one step later."""

    def __init__(self, flags: Tensor) -> None:
        self._flags = flags.tolist()

    def read(self) -> list[bool]:
        return list(self._flags)


REPLACED: list[tuple[str, type[Any]]] = [
    ("_RecordedSearch", PlainSteps),
    ("_PendingFlags", FlagsAtOnce),
]
"""What to patch in `recorded`."""
