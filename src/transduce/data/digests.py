"""Digests of files, remembered as long as a file's size and time of change stay the same."""

import json
import os
from hashlib import blake2b
from pathlib import Path

from transduce.errors import InputError


class Digests:
    """Remembers in a file of the cache folder; if that is lost, digests are computed again."""

    def __init__(self, cache: Path) -> None:
        self._memory = cache / "digests.json"

    def of(self, path: Path) -> str:
        """Return the digest of a file's content."""
        try:
            state = path.stat()
            stamp = [state.st_size, state.st_mtime_ns, state.st_ino]
            known = self._known()
            remembered = known.get(str(path.resolve()))
            if remembered and remembered[:-1] == stamp:
                return str(remembered[-1])
            digest = _digest(path)
        except OSError as unreadable:
            raise InputError(f"cannot read {path}: {unreadable.strerror}") from unreadable
        self._remember({**known, str(path.resolve()): [*stamp, digest]})
        return digest

    def _known(self) -> dict[str, list[int | str]]:
        try:
            known = json.loads(self._memory.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def _remember(self, known: dict[str, list[int | str]]) -> None:
        try:
            self._memory.parent.mkdir(parents=True, exist_ok=True)
            part = self._memory.with_suffix(f".{os.getpid()}.part")
            part.write_text(json.dumps(known), encoding="utf-8")
            part.replace(self._memory)
        except OSError as fault:
            raise InputError(f"cannot write {self._memory}: {fault.strerror}") from fault


def _digest(path: Path) -> str:
    digest = blake2b(digest_size=16)
    with path.open("rb") as stream:
        while block := stream.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()
