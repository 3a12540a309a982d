"""Digests of files, remembered as long as a file's size and time of change stay the same."""

import json
import os
from hashlib import blake2b
from pathlib import Path
from typing import Any

from transduce.errors import InputError


class Memory:
    """A file of the cache folder; if it is lost or spoilt, what it held is found out again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def recall(self) -> dict[str, Any]:
        """Return all that is remembered."""
        try:
            known = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def remember(self, more: dict[str, Any]) -> None:
        """Add to it."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            part = self._path.with_suffix(f".{os.getpid()}.part")
            part.write_text(json.dumps({**self.recall(), **more}), encoding="utf-8")
            part.replace(self._path)
        except OSError as fault:
            raise InputError(f"cannot write {self._path}: {fault.strerror}") from fault


class Digests:
    """Remembers in a file of the cache folder."""

    def __init__(self, cache: Path) -> None:
        self._memory = Memory(cache / "digests.json")

    def of(self, path: Path) -> str:
        """Return the digest of a file's content."""
        try:
            state = path.stat()
            stamp = [state.st_size, state.st_mtime_ns, state.st_ino]
            remembered = self._memory.recall().get(str(path.resolve()))
            if isinstance(remembered, list) and remembered[:-1] == stamp:
                return str(remembered[-1])
            digest = _digest(path)
        except OSError as unreadable:
            raise InputError(f"cannot read {path}: {unreadable.strerror}") from unreadable
        self._memory.remember({str(path.resolve()): [*stamp, digest]})
        return digest


def _digest(path: Path) -> str:
    digest = blake2b(digest_size=16)
    with path.open("rb") as stream:
        while block := stream.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()
