"""Requests that the server refuses, the reason that it gives, and the form of every error."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors {ancestors}"
)
HEADERS = {
    "Content-Security-Policy": POLICY.format(ancestors="'none'"),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Browsers say from which site a form comes, but to this server alone.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""The headers of every response that does not set its own."""
SECURITY_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
INTERNAL = "internal error of the server: see its log"


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


def error_body(message: str) -> bytes:
    """Return the body of a response that says what is wrong."""
    return json.dumps({"error": message}).encode()
