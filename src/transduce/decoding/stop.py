"""Searches that nobody waits for any longer end at their next step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Stopped(Exception):  # noqa: N818 - nothing went wrong
    """A search was given up because whoever asked for it no longer wants it."""


_is_unwanted: ContextVar[Callable[[], bool] | None] = ContextVar("is_unwanted", default=None)


@contextmanager
def stopping(is_unwanted: Callable[[], bool]) -> Iterator[None]:
    """Ask, at each step of the searches that this thread does within, whether to give up."""
    token = _is_unwanted.set(is_unwanted)
    try:
        yield
    finally:
        _is_unwanted.reset(token)


def go_on() -> None:
    """Raise `Stopped` if the search is unwanted; every search calls it once a step."""
    is_unwanted = _is_unwanted.get()
    if is_unwanted is not None and is_unwanted():
        raise Stopped
