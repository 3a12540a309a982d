"""The application on a socket, until a signal; what was taken by then is finished."""

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
"""What the process may have open besides connections."""
GRACE_S = 5.0
"""How much longer than a deadline the server stays after a signal."""


def listen(host: str, port: int) -> socket.socket:
    """Take an address; port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Said to be TCP, or asyncio does not turn off the delay of 40 ms between two small packets.
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
    """Serve until SIGTERM or SIGINT, then accept no more and finish; a second SIGINT ends it.

    `ready` is called when signals are heeded: whoever is told may send one at once.
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
    # uvicorn has its own while it runs, and afterwards calls these.
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        ready()
        server.run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _allow_files(count: int) -> None:
    """Let the process open so many files, as far as the system lets it.

    Many systems allow 1,024 unless asked for more. Where a connection finds none left, asyncio can
    neither accept it nor turn it away.
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
    """Closes connections that are too many, or on which no request arrives in time."""

    limits_: Limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits_.max_connections:
            transport.close()
        self._expect_a_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._expect_a_request()

    def _expect_a_request(self) -> None:
        self.loop.call_later(self.limits_.head_s, self._close_if_still, self.cycle)

    def _close_if_still(self, cycle: object) -> None:
        if self.cycle is cycle and not self.transport.is_closing():
            self.transport.close()
