"""One connection of a client, with limits on time, on requests sent ahead, and on its address.

The transport announces when a client does not take what was sent. uvicorn then waits, so that at
most one piece of an answer is in memory; the connection ends if the client takes too long.
"""

import asyncio
import ipaddress
import socket
import struct
from collections import Counter

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from transduce.serving.http.sites import Sites
from transduce.serving.limits import Limits
from transduce.serving.refusal import SECURITY_HEADERS, error_body

UNSENT_BYTES = 64 << 10
"""What the system may hold for a client beside what is under way to it."""
MAX_SENT_AHEAD = 32
"""Requests in a row that a client may send before it has the response to the one before."""
PROBE_S = 0.1
"""How often a client that has stopped sending is looked for while its response is prepared."""


class Connection(H11Protocol):
    """Closes itself beyond a limit; `settle` makes the class for one server."""

    limits: Limits
    sites: Sites
    clients: Counter[str]  # connections by address

    @classmethod
    def settle(cls, limits: Limits, sites: Sites) -> type["Connection"]:
        """Make a class whose connections share limits, and a count of those of each address."""
        shared = {"limits": limits, "sites": sites, "clients": Counter()}
        return type("SettledConnection", (cls,), shared)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, or close it if there are too many."""
        super().connection_made(transport)
        self._sent_ahead = 0
        self._is_half_closed = False
        self._unread: asyncio.TimerHandle | None = None
        self._address = _network(self.client[0] if self.client else "")
        self.clients[self._address] += 1
        transport.set_write_buffer_limits(high=0)
        _limit_unsent(transport)
        if (
            len(self.connections) > self.limits.max_connections
            or self.clients[self._address] > self.limits.max_connections_per_client
        ):
            transport.close()
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self.resume_writing()
        self.clients[self._address] -= 1
        if not self.clients[self._address]:
            del self.clients[self._address]

    # Clients that do not read

    def pause_writing(self) -> None:
        """Wait for the client to take what was sent, but not for long."""
        super().pause_writing()
        self._unread = self.loop.call_later(self.limits.write_s, self._drop)

    def resume_writing(self) -> None:
        """Go on, since the client has taken everything."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _drop(self) -> None:
        """End the connection; the system forgets what it holds for the client."""
        connected: socket.socket = self.transport.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    # Clients that send no request, or several at once

    def on_response_complete(self) -> None:
        """Expect the next request; close the connection if the client sends too many ahead."""
        is_ahead = bool(self.conn.trailing_data[0])
        self._sent_ahead = self._sent_ahead + 1 if is_ahead else 0
        if self._sent_ahead > MAX_SENT_AHEAD:
            self.transport.close()
        super().on_response_complete()
        if self._is_half_closed and self.cycle.response_complete:
            self.transport.close()
        self._expect_request()

    def _expect_request(self) -> None:
        self.loop.call_later(self.limits.head_s, self._close_if_idle, self.cycle)

    def _close_if_idle(self, cycle: object) -> None:
        is_idle = self.cycle is None or self.cycle.response_complete
        if self.cycle is cycle and is_idle and not self.transport.is_closing():
            self.transport.close()

    # Clients that have stopped sending

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection if a whole request has come: its client may wait for the response.

        A client that has left looks the same until something is sent to it. So it gets an interim
        response, which every client of HTTP/1.1 skips; the system of one that has left reports an
        error.
        """
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            return False
        if not self._is_half_closed:
            self._is_half_closed = True
            if self.conn.our_state is h11.SEND_RESPONSE and self.scope["http_version"] == "1.1":
                probe = h11.InformationalResponse(status_code=100, headers=[], reason="Continue")
                self.transport.write(self.conn.send(probe))
            self._close_if_left()
        return True

    def _close_if_left(self) -> None:
        if self.transport.is_closing():
            return
        connected: socket.socket = self.transport.get_extra_info("socket")
        if connected.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.transport.abort()
        else:
            self.loop.call_later(PROBE_S, self._close_if_left)

    # Requests that are not HTTP

    def send_400_response(self, msg: str) -> None:
        """Respond in the form of all errors, if a response is still possible."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = error_body(msg)
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
                *SECURITY_HEADERS,
                *self.sites.cors_headers(None),
            ]
            for event in (
                h11.Response(status_code=400, headers=headers, reason=STATUS_PHRASES[400]),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def _network(address: str) -> str:
    """Return an address; of version 6 its network, since a client has all addresses of one."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is None:
            return str(ipaddress.ip_network((parsed, 64), strict=False))
        parsed = parsed.ipv4_mapped
    return str(parsed)


def _limit_unsent(transport: asyncio.Transport) -> None:
    """Have the system take no more than a client reads, where it offers that."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is not None:
        connected: socket.socket = transport.get_extra_info("socket")
        connected.setsockopt(socket.IPPROTO_TCP, option, UNSENT_BYTES)
