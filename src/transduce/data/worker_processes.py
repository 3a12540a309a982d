"""Processes that work on text beside this one, and end with it."""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from threading import Thread
from typing import Any, TypeVar

from transduce.errors import TransduceError

Item = TypeVar("Item")
Result = TypeVar("Result")


def process_pool(
    processes: int, start: Callable[..., None], *arguments: Any
) -> ProcessPoolExecutor:
    """Make a pool of new processes, each of which calls `start` first."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(processes, context, start, arguments)


def in_processes(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    processes: int,
    *,
    start: Callable[..., None],
    shared: Any,
) -> Iterator[tuple[Item, Result]]:
    """Stream items with their results, in order, a few items ahead of the reader.

    Each process calls `start` with what is shared first.
    """
    with process_pool(processes, start, shared) as pool:
        waiting: deque[tuple[Item, Future[Result]]] = deque()
        try:
            for item in items:
                with ctrl_c_blocked():
                    waiting.append((item, pool.submit(work, item)))
                if len(waiting) > 2 * processes:
                    first, future = waiting.popleft()
                    yield first, result_of(future)
            while waiting:
                first, future = waiting.popleft()
                yield first, result_of(future)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def ctrl_c_blocked() -> Iterator[None]:
    """Delay Ctrl-C; a process started meanwhile inherits the block, even while it loads."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def result_of(future: Future[Result]) -> Result:
    """Wait for a result; if the process was killed, say what may be the reason."""
    try:
        return future.result()
    except BrokenProcessPool as broken:
        raise TransduceError(
            "a process that encodes text was killed, perhaps because memory ran out: run it "
            "again; in a script of your own, call transduce.train below "
            "if __name__ == '__main__':, since each process imports the script"
        ) from broken


def follow_parent() -> None:
    """Leave Ctrl-C to the parent, and end when it ends; for a new process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process if its parent was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
