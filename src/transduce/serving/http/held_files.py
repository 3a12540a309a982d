"""Translated files, held in memory for a while under names that cannot be guessed."""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from transduce.serving.limits import Limits

NAME_BYTES = 32
"""Random bytes of the name of a file: whoever knows it may fetch the file."""


@dataclass(frozen=True)
class HeldFile:
    """A file that can be fetched."""

    content: bytes
    name: str  # that a browser saves it under
    expires: float


class HeldFiles:
    """The files that can be fetched; the oldest go when their time is over or memory is short."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._held: OrderedDict[str, HeldFile] = OrderedDict()  # oldest first
        self._bytes = 0

    def add(self, content: bytes, name: str) -> str:
        """Hold a file; return the name to fetch it by."""
        key = secrets.token_urlsafe(NAME_BYTES)
        self._held[key] = HeldFile(content, name, self._clock() + self._limits.file_s)
        self._bytes += len(content)
        self._drop()
        return key

    def get(self, key: str) -> HeldFile | None:
        """Return a file, unless its time is over."""
        self._drop()
        return self._held.get(key)

    def clear(self) -> None:
        """Forget all files."""
        self._held.clear()
        self._bytes = 0

    def _drop(self) -> None:
        now = self._clock()
        while self._held:
            oldest = next(iter(self._held))
            file = self._held[oldest]
            if file.expires > now and self._bytes <= self._limits.max_held_bytes:
                return
            self._bytes -= len(file.content)
            del self._held[oldest]
