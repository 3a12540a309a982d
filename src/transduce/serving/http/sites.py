"""Which names this server answers to, and which other sites' pages may call it.

A browser lets any page send a form or plain text anywhere, and says from which site it comes. A
site can also have its own name resolve to this server's address; a page of it then comes from the
same site, but asks for that name.
"""

import ipaddress
import socket
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from transduce.serving.refusal import Refused

EVERY = "*"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
DEFAULT_PORTS = {"http": ":80", "https": ":443"}
Headers = Mapping[bytes, bytes]


class Sites:
    """The origins and the host names that are allowed."""

    def __init__(
        self, origins: Sequence[str] = (), hosts: Iterable[str] = (), *, has_keys: bool = False
    ) -> None:
        """Allow origins as a browser writes them, and names beside those that are local.

        With keys every name is allowed, because pages of other sites do not know a key.
        """
        self.origins = [origin.rstrip("/") for origin in origins]
        self._hosts = {_host_name(name) for name in hosts}
        self._allows_every_host = has_keys or EVERY in self._hosts or EVERY in self.origins
        self._named_hosts = self._hosts - {EVERY}
        self._hosts |= {socket.gethostname().lower()}

    def check(self, method: str, path: str, headers: Headers) -> None:
        """Raise unless the request may be answered; the first of equal headers counts."""
        host = headers.get(b"host", b"").decode("latin-1")
        if path != "/health" and not self._allows_host(host):
            raise Refused(
                421, "this server does not answer to that host name: name it with --allow-host"
            )
        if method not in SAFE_METHODS and not self._allows_origin(headers):
            raise Refused(
                403, "pages of other sites may not call this server unless --allow-origin says so"
            )

    def cors_headers(self, origin: str | None) -> list[tuple[bytes, bytes]]:
        """Return the headers that let a page of that origin read a response, if it may.

        Without an origin, because the request cannot be read, the only one that is allowed counts.
        """
        if EVERY in self.origins:
            return [(b"access-control-allow-origin", b"*")]
        if origin is None and len(self.origins) == 1:
            origin = self.origins[0]
        if origin is None or origin not in self.origins:
            return []
        return [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"Origin")]

    def _allows_host(self, host: str) -> bool:
        """Allow what nobody else can have resolve to this server: addresses, and local names."""
        name = _host_name(host)
        if self._allows_every_host or not host or name in self._hosts:
            return True
        return "." not in name or name.endswith(".localhost") or _is_address(name)

    def _allows_origin(self, headers: Headers) -> bool:
        origin = headers.get(b"origin", b"").decode("latin-1")
        if not origin or EVERY in self.origins or origin in self.origins:
            return True
        if headers.get(b"sec-fetch-site") in (b"same-origin", b"none"):
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        if origin != "null" and parts.scheme not in ("http", "https"):
            return True  # an app or an extension of a browser
        if _host_name(parts.netloc) in self._named_hosts:
            return True
        own = (headers.get(name, b"").decode("latin-1") for name in (b"host", b"x-forwarded-host"))
        port = DEFAULT_PORTS.get(parts.scheme, "")
        return parts.netloc.lower().removesuffix(port) in {
            host.lower().removesuffix(port) for host in own if host
        }


def _host_name(host: str) -> str:
    """Return the name or the address of a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
