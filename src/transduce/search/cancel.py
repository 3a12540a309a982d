"""Cancelling: a search that is no longer wanted ends at its next step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Cancelled(Exception):  # noqa: N818 - nothing went wrong
    """A search was cancelled before it was done."""


_is_cancelled: ContextVar[Callable[[], bool] | None] = ContextVar("is_cancelled", default=None)


@contextmanager
def cancelled_when(is_cancelled: Callable[[], bool]) -> Iterator[None]:
    """Cancel the searches of this thread as soon as the function returns True.

    It is called at each of their steps.
    """
    token = _is_cancelled.set(is_cancelled)
    try:
        yield
    finally:
        _is_cancelled.reset(token)


def raise_if_cancelled() -> None:
    """Raise `Cancelled` if the search is cancelled; every search calls this once a step."""
    is_cancelled = _is_cancelled.get()
    if is_cancelled is not None and is_cancelled():
        raise Cancelled
