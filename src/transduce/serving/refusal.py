"""Requests that the server refuses, and the reason that it gives."""

from collections.abc import Iterable, Mapping
from typing import Any


class Refused(Exception):  # noqa: N818 - nothing is wrong with the server
    """A response with this status and message; `retry_after_s` says when to try again."""

    def __init__(self, status: int, message: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after_s = retry_after_s

    @property
    def headers(self) -> dict[str, str]:
        """The headers that go with the status."""
        return {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}


def too_busy(retry_after_s: int) -> Refused:
    """Return the refusal of a request that the server has no capacity for now."""
    return Refused(429, "the server is too busy: try again later", retry_after_s=retry_after_s)


def validation_message(errors: Iterable[Mapping[str, Any]]) -> str:
    """Say in one line which fields are wrong and why, without repeating what was sent."""
    messages = []
    for error in errors:
        name = ".".join(str(part) for part in error["loc"] if part != "body")[:80]
        messages.append(f"{name}: {error['msg']}" if name else str(error["msg"]))
    return "; ".join(dict.fromkeys(messages[:3])).encode(errors="replace").decode()
