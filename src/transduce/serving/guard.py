"""Middleware around the application: limits on bodies, clients that leave, security headers.

A body is read as a whole before the application runs, within limits of size and time, whatever the
headers claim about it. When a client disconnects, its request is cancelled. The event loop goes on
with other clients after every piece that is read or sent.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from transduce.serving.http.sites import SAFE_METHODS, Headers, Sites
from transduce.serving.limits import FORM_BYTES, Limits
from transduce.serving.metrics import Metrics
from transduce.serving.refusal import INTERNAL, SECURITY_HEADERS, Refused, error_body, too_busy

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

FORM_TYPES = (b"application/x-www-form-urlencoded", b"multipart/form-data")
FILE_PATH = "/translate_file"
"""Where a form may have a file."""
READ_BYTES = 16 << 10
"""A body is handed on in pieces of this size: parsing a form takes a while."""
SENT_BYTES = 64 << 10
"""A response is sent in pieces of this size, for each of which a client has the same time."""

_log = logging.getLogger(__name__)


class _Disconnected(Exception):  # noqa: N818 - nothing is wrong with the server
    pass


class Guard:
    """ASGI middleware around an application."""

    def __init__(self, app: App, *, limits: Limits, metrics: Metrics, sites: Sites) -> None:
        self._app = app
        self._limits = limits
        self._metrics = metrics
        self._sites = sites
        self._with_body = 0  # requests with a body that are being handled
        self._bytes = 0  # of their bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0
        given: Headers = dict(reversed(scope["headers"]))
        origin = given.get(b"origin", b"").decode("latin-1")
        more_headers = [*SECURITY_HEADERS, *self._sites.cors_headers(origin)]

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": _with_headers(message["headers"], more_headers)}
                await send(message)
            else:
                await _send_in_pieces(message, send)

        try:
            await self._handle(scope, given, receive, send_guarded)
        except _Disconnected:
            self._metrics.count_abandoned()
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # a panic of a library written in Rust is no Exception
            if status:
                raise
            _log.exception("a request has failed")
            await _refuse(send_guarded, Refused(500, INTERNAL))
        finally:
            if status:
                route = getattr(scope.get("route"), "path", "other")
                self._metrics.count_request(route, status, time.perf_counter() - began)

    async def _handle(self, scope: Scope, given: Headers, receive: Receive, send: Send) -> None:
        try:
            self._sites.check(scope["method"], scope["path"], given)
        except Refused as refused:
            await _refuse(send, refused)
            return
        if scope["method"] in SAFE_METHODS:
            await self._run_while_connected(scope, bytearray(), receive, send)
            return
        body = bytearray()
        self._with_body += 1
        try:
            await self._read_body(scope["path"], body, given, receive)
            await self._run_while_connected(scope, body, receive, send)
        except Refused as refused:
            await _refuse(send, refused)
        finally:
            self._with_body -= 1
            self._bytes -= len(body)

    async def _read_body(
        self, path: str, body: bytearray, given: Headers, receive: Receive
    ) -> None:
        if self._with_body > self._limits.max_requests:
            raise too_busy(1)
        most = self._most_bytes(path, given)
        too_large = Refused(413, f"a body of more than {most:,} bytes: send less at once")
        if int(given.get(b"content-length", b"0")) > most:
            raise too_large
        try:
            async with asyncio.timeout(self._limits.body_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Disconnected
                    piece = message.get("body", b"")
                    if len(body) + len(piece) > most:
                        raise too_large
                    if self._bytes + len(piece) > self._limits.max_bytes_in_flight:
                        raise too_busy(1)
                    body += piece
                    self._bytes += len(piece)
                    if not message.get("more_body", False):
                        return
        except TimeoutError as slow:
            raise Refused(
                408, f"the body did not arrive within {self._limits.body_s:g} s"
            ) from slow

    def _most_bytes(self, path: str, given: Headers) -> int:
        """Return how many bytes a body may have."""
        if given.get(b"content-type", b"").partition(b";")[0].strip().lower() not in FORM_TYPES:
            return self._limits.max_body_bytes
        if path == FILE_PATH:
            return self._limits.max_file_bytes + FORM_BYTES
        return self._limits.max_form_bytes

    async def _run_while_connected(
        self, scope: Scope, body: bytearray, receive: Receive, send: Send
    ) -> None:
        """Run the application until it has responded or the client has disconnected."""
        read = 0
        is_read = is_answered = False

        async def send_and_note(message: Message) -> None:
            nonlocal is_answered
            await send(message)
            is_answered = message["type"] == "http.response.body" and not message.get("more_body")

        async def replay() -> Message:
            nonlocal is_read, read
            if not is_read:
                await asyncio.sleep(0)
                piece = bytes(body[read : read + READ_BYTES])
                read += len(piece)
                is_read = read >= len(body)
                return {"type": "http.request", "body": piece, "more_body": not is_read}
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


def _with_headers(
    given: list[tuple[bytes, bytes]], more: list[tuple[bytes, bytes]]
) -> list[tuple[bytes, bytes]]:
    names = {name.lower() for name, _ in given}
    return [*given, *(header for header in more if header[0] not in names)]


async def _send_in_pieces(message: Message, send: Send) -> None:
    """Send a part of a body; after each piece others have their turn.

    Without a turn, the server would not even learn that the client has left.
    """
    body = message.get("body", b"")
    is_last = not message.get("more_body", False)
    for start in range(0, max(1, len(body)), SENT_BYTES):
        end = start + SENT_BYTES
        more = not is_last or end < len(body)
        await send({**message, "body": body[start:end], "more_body": more})
        if more:
            await asyncio.sleep(0)


async def _refuse(send: Send, refused: Refused) -> None:
    """Respond and close the connection, since the rest of the body is not read."""
    body = error_body(refused.message)
    headers = {
        **refused.headers,
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
