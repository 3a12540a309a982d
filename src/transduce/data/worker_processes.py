"""Processes that work on text beside this one, and end with it."""

import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from threading import Lock, Thread
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from transduce.errors import TransduceError

Item = TypeVar("Item")
Result = TypeVar("Result")
Given = ParamSpec("Given")

_hiding = Lock()
_hidden: list[ModuleType] = []
"""The script that runs here, once for each process that is being started without it."""


class WorkerPool(ProcessPoolExecutor):
    """New processes, each of which calls `start` first; they start when work is submitted."""

    def __init__(self, processes: int, start: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        super().__init__(processes, context, start, arguments)

    def submit(
        self, work: Callable[Given, Result], /, *args: Given.args, **kwargs: Given.kwargs
    ) -> Future[Result]:
        """Give work to a process; it starts without Ctrl-C and without the user's script."""
        with ctrl_c_blocked(), script_hidden():
            return super().submit(work, *args, **kwargs)


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
    with WorkerPool(processes, start, shared) as pool:
        waiting: deque[tuple[Item, Future[Result]]] = deque()
        try:
            for item in items:
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


@contextmanager
def script_hidden() -> Iterator[None]:
    """Let a process that is started meanwhile import nothing of the script that runs here.

    By default it would import the script, which would train once more in each process if it calls
    `transduce.train` outside of `if __name__ == "__main__":`. No work of ours is defined there.
    Several threads may start processes at the same time: the last of them brings the script back.
    """
    with _hiding:
        _hidden.append(_hidden[0] if _hidden else sys.modules["__main__"])
        if len(_hidden) == 1:
            sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        with _hiding:
            script = _hidden.pop()
            if not _hidden:
                sys.modules["__main__"] = script


def result_of(future: Future[Result]) -> Result:
    """Wait for a result; if the process was killed, say what may be the reason."""
    try:
        return future.result()
    except BrokenProcessPool as broken:
        raise TransduceError(
            "a process that encodes text was killed, perhaps because memory ran out: run it again"
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
