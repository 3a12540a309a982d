"""The application on a socket, until a signal; requests accepted by then are finished."""

import asyncio
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from transduce.errors import InputError
from transduce.serving.limits import Limits

BACKLOG = 128
OTHER_FILES = 128
"""Files that the process may have open besides connections."""
GRACE_S = 5.0
"""After a signal the server stays this much longer than a deadline."""


def listen(host: str, port: int) -> socket.socket:
    """Listen at an address; port 0 is any free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With IPPROTO_TCP asyncio sets TCP_NODELAY; else small packets are delayed by up to 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
        return listening
    except (OSError, OverflowError) as fault:
        listening.close()
        reason = getattr(fault, "strerror", None) or str(fault)
        raise InputError(
            f"cannot listen at {host}:{port}: {reason}; choose another --host or --port"
        ) from fault


def serve(
    app: FastAPI, listening: socket.socket, limits: Limits, *, ready: Callable[[], None]
) -> None:
    """Serve until SIGTERM or SIGINT, then finish accepted requests; a second SIGINT ends at once.

    `ready` is called once signals are handled, so that it may announce the server.
    """

    class Connection(_Connection):
        limits_ = limits

    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            access_log=False,
            log_config=None,
            server_header=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=int(limits.deadline_s + GRACE_S),
        )
    )

    def stop(_number: int, _frame: FrameType | None) -> None:
        server.should_exit = True

    _allow_files(limits.max_connections + BACKLOG + OTHER_FILES)
    # uvicorn installs its own handlers while it runs, and calls these afterwards.
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        ready()
        server.run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _allow_files(count: int) -> None:
    """Raise the limit on open files to this many, as far as the system allows.

    The default of many systems is 1,024. At the limit, asyncio can neither accept a connection nor
    refuse it.
    """
    try:
        import resource
    except ImportError:  # there is no such limit on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


class _Connection(H11Protocol):
    """Closes a connection beyond the limit, or one on which no request arrives in time."""

    limits_: Limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits_.max_connections:
            transport.close()
        self._expect_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._expect_request()

    def _expect_request(self) -> None:
        self.loop.call_later(self.limits_.head_s, self._close_if_idle, self.cycle)

    def _close_if_idle(self, cycle: object) -> None:
        if self.cycle is cycle and not self.transport.is_closing():
            self.transport.close()
