"""API keys: kept as digests, and compared in constant time."""

import hashlib
import hmac
import re
from collections.abc import Iterable

from transduce.errors import InputError

_COMMENT = re.compile(r"(?:^|\s)#")


class Keys:
    """The keys that the server accepts; without any, it needs none."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._digests = [_digest(key) for key in keys]

    @classmethod
    def from_lines(cls, lines: Iterable[str], *, name: str) -> "Keys":
        """Read one key a line; a # at the beginning or after a space begins a comment."""
        keys = [key for line in lines if (key := _COMMENT.split(line, 1)[0].strip("\ufeff \t\r\n"))]
        if not keys:
            raise InputError(f"{name} has no key: write one key a line")
        return cls(keys)

    @property
    def are_needed(self) -> bool:
        """Whether a client has to send a key."""
        return bool(self._digests)

    def allow(self, key: str | None) -> bool:
        """Return whether a key is accepted; it is always compared with every one."""
        if not self._digests:
            return True
        given = _digest(key or "")
        return sum(hmac.compare_digest(given, digest) for digest in self._digests) > 0


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogatepass")).digest()
