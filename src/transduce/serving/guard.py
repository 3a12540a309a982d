"""Middleware around the application: limits on bodies, clients that leave, security headers.

A body is read as a whole before the application runs, within limits of size and time, whatever the
headers claim about it. When a client disconnects, its request is cancelled.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from transduce.serving.limits import Limits
from transduce.serving.metrics import Metrics
from transduce.serving.refusal import Refused, too_busy

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors {ancestors}"
)
HEADERS = {
    "Content-Security-Policy": POLICY.format(ancestors="'none'"),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""The headers of every response that does not set its own."""


class _Disconnected(Exception):  # noqa: N818 - nothing is wrong with the server
    pass


class Guard:
    """ASGI middleware around an application."""

    def __init__(self, app: App, *, limits: Limits, metrics: Metrics) -> None:
        self._app = app
        self._limits = limits
        self._metrics = metrics
        self._with_body = 0  # requests with a body that are being handled

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": _with_security_headers(message["headers"])}
            await send(message)

        try:
            await self._handle(scope, receive, send_guarded)
        except _Disconnected:
            self._metrics.count_abandoned()
            return
        finally:
            if status:
                route = getattr(scope.get("route"), "path", "other")
                self._metrics.count_request(route, status, time.perf_counter() - began)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._run_while_connected(scope, b"", receive, send)
            return
        self._with_body += 1
        try:
            body = await self._read_body(scope, receive)
            await self._run_while_connected(scope, body, receive, send)
        except Refused as refused:
            await _refuse(send, refused)
        finally:
            self._with_body -= 1

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes:
        if self._with_body > self._limits.max_requests:
            raise too_busy(1)
        most = self._limits.max_body_bytes
        too_large = Refused(413, f"a body of more than {most:,} bytes: send less at once")
        for name, value in scope["headers"]:
            if name == b"content-length" and int(value) > most:
                raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Disconnected
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise too_large
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError as slow:
            raise Refused(
                408, f"the body did not arrive within {self._limits.body_s:g} s"
            ) from slow

    async def _run_while_connected(
        self, scope: Scope, body: bytes, receive: Receive, send: Send
    ) -> None:
        """Run the application until it has responded or the client has disconnected."""
        is_read = is_answered = False

        async def send_and_note(message: Message) -> None:
            nonlocal is_answered
            await send(message)
            is_answered = message["type"] == "http.response.body" and not message.get("more_body")

        async def replay() -> Message:
            nonlocal is_read
            if not is_read:
                is_read = True
                return {"type": "http.request", "body": body, "more_body": False}
            await asyncio.wait({disconnecting})
            return {"type": "http.disconnect"}

        async def wait_for_disconnect() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        disconnecting = asyncio.ensure_future(wait_for_disconnect())
        answering = asyncio.ensure_future(self._app(scope, replay, send_and_note))
        try:
            await asyncio.wait({disconnecting, answering}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done() and not is_answered:
                answering.cancel()
                await asyncio.wait({answering})
                raise _Disconnected
            await answering
        finally:
            disconnecting.cancel()
            answering.cancel()


def _with_security_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    given = {name.lower() for name, _ in headers}
    more = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
    return [*headers, *(header for header in more if header[0] not in given)]


async def _refuse(send: Send, refused: Refused) -> None:
    """Respond and close the connection, since the rest of the body is not read."""
    body = json.dumps({"error": refused.message}).encode()
    headers = {
        **refused.headers,
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
