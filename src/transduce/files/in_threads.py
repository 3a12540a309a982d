"""Reading several files at once, in threads that stop as soon as one of them fails."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from threading import Event
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_THREADS = 8

_stop: ContextVar[Event | None] = ContextVar("_stop", default=None)


class StoppedError(Exception):
    """The work of this thread is no longer wanted."""


def in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return the result for each item, or raise the error of the first one that has an error.

    The work sees the context of the caller, and ends early where it reads by `stoppable`.
    """
    stop = Event()

    def run(item: Item) -> Result:
        _stop.set(stop)
        return work(item)

    with ThreadPoolExecutor(min(MAX_THREADS, len(items) or 1)) as pool:
        futures = [pool.submit(copy_context().run, run, item) for item in items]
        try:
            return [future.result() for future in futures]
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)


def stoppable(items: Iterable[Item]) -> Iterator[Item]:
    """Stream items, and raise `StoppedError` in a thread whose result is no longer wanted."""
    stop = _stop.get()
    for item in items:
        if stop is not None and stop.is_set():
            raise StoppedError
        yield item
