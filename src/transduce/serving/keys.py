"""API keys: kept as digests, and compared in a time that tells nothing about them."""

import hashlib
import hmac
from collections.abc import Iterable

from transduce.errors import InputError


class Keys:
    """The keys that open the server; without any, it is open."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._digests = [_digest(key) for key in keys]

    @classmethod
    def from_lines(cls, lines: Iterable[str], *, name: str) -> "Keys":
        """Take one key a line; what follows a # is a remark."""
        keys = [key for line in lines if (key := line.partition("#")[0].strip())]
        if not keys:
            raise InputError(f"{name} has no key: write one a line")
        return cls(keys)

    @property
    def are_needed(self) -> bool:
        """Say whether a client has to give a key."""
        return bool(self._digests)

    def allow(self, key: str | None) -> bool:
        """Say whether this key opens; every key is compared, whichever it is."""
        if not self._digests:
            return True
        given = _digest(key or "")
        return sum(hmac.compare_digest(given, digest) for digest in self._digests) > 0


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogatepass")).digest()
