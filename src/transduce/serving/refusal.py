"""What the server does not do for a client, and why."""

from collections.abc import Iterable, Mapping
from typing import Any


class Refused(Exception):  # noqa: N818 - nothing is wrong with the server
    """An answer with this status and message; `retry_after_s` says when to come again."""

    def __init__(self, status: int, message: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after_s = retry_after_s

    @property
    def headers(self) -> dict[str, str]:
        """Give the headers that go with the status."""
        return {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}


def too_busy(retry_after_s: int) -> Refused:
    """Refuse what would make the queue too long."""
    return Refused(429, "too much to do: try again later", retry_after_s=retry_after_s)


def complaint(errors: Iterable[Mapping[str, Any]]) -> str:
    """Say in one line what is wrong with which field; never what was sent."""
    said = []
    for error in errors:
        name = ".".join(str(part) for part in error["loc"] if part != "body")[:80]
        said.append(f"{name}: {error['msg']}" if name else str(error["msg"]))
    return "; ".join(dict.fromkeys(said[:3])).encode(errors="replace").decode()
