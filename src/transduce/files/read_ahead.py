"""Reading in a thread, a little ahead of whoever uses it.

It saves time where the items are made outside of Python's lock: in decompression, in the tokenizer,
on a GPU.
"""

import sys
from collections.abc import Iterator
from contextvars import copy_context
from queue import Empty, Queue
from threading import Event, Thread
from typing import Generic, TypeVar

Item = TypeVar("Item")

ITEMS_AHEAD = 3
"""At least 2: a thread that is told to stop may still add one item, and then the end."""


class _End:
    """Nothing follows."""


def read_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Stream items that a thread takes from an iterator; what that raises is raised here.

    The thread sees the context of whoever takes the first item.
    """
    reader = _Reader(items)
    try:
        yield from reader.items()
    finally:
        reader.stop()


class _Reader(Generic[Item]):
    def __init__(self, items: Iterator[Item]) -> None:
        self._source = items
        self._queue: Queue[Item | BaseException | _End] = Queue(ITEMS_AHEAD)
        self._stopped = Event()
        self._thread = Thread(target=copy_context().run, args=(self._read,), daemon=True)
        self._thread.start()

    def items(self) -> Iterator[Item]:
        while True:
            item = self._queue.get()
            if isinstance(item, _End):
                return
            if isinstance(item, BaseException):
                raise item
            yield item

    def stop(self) -> None:
        """Let the thread end, and wait for it; when Python ends, its threads are gone."""
        self._stopped.set()
        if sys.is_finalizing():
            return
        try:
            while True:
                self._queue.get_nowait()
        except Empty:
            self._thread.join()

    def _read(self) -> None:
        end: BaseException | _End = _End()
        try:
            for item in self._source:
                self._queue.put(item)
                if self._stopped.is_set():
                    break
        except BaseException as fault:  # noqa: BLE001 - it is raised where items are used
            end = fault
        self._queue.put(end)
