"""The application on a socket, until a signal; requests accepted by then are finished."""

import gc
import logging
import signal
import socket
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from fastapi import FastAPI

from transduce.errors import InputError
from transduce.hardware.interpreter import short_pauses
from transduce.serving.http.connection import Connection
from transduce.serving.http.sites import Sites
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
    app: FastAPI,
    listening: socket.socket,
    limits: Limits,
    *,
    ready: Callable[[], None],
    sites: Sites | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish accepted requests; a second SIGINT ends at once.

    `ready` is called once signals are handled, so that it may announce the server.
    """
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http=Connection.settle(limits, sites or Sites()),
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
        gc.collect()
        with short_pauses(), _bounded_logs():
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


@contextmanager
def _bounded_logs() -> Iterator[None]:
    """Log each message only a few times a minute: clients cause many of them."""
    bound = _FewOfEach()
    handlers = [*logging.getLogger().handlers, *logging.getLogger("transduce").handlers]
    if logging.lastResort is not None:
        handlers.append(logging.lastResort)
    for one in handlers:
        one.addFilter(bound)
    try:
        yield
    finally:
        for one in handlers:
            one.removeFilter(bound)


class _FewOfEach(logging.Filter):
    """Lets at most MAX_RECORDS of one message pass within a minute."""

    MAX_RECORDS = 10
    MINUTE_S = 60.0

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=self.MAX_RECORDS))

    def filter(self, record: logging.LogRecord) -> bool:
        passed, now = self._passed[str(record.msg)], time.monotonic()
        if len(passed) == self.MAX_RECORDS and now - passed[0] < self.MINUTE_S:
            return False
        passed.append(now)
        return True
