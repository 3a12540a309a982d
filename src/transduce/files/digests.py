"""Digests of files, cached for as long as a file's size and modification time stay the same."""

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

from transduce.files.atomic import atomic_file
from transduce.files.errors import reporting_read_errors, reporting_write_errors


class JsonMemory:
    """A JSON object in a cache file; a lost or damaged file only costs computing it again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def recall(self) -> dict[str, Any]:
        """Return all stored entries; none if the file is missing or damaged."""
        try:
            known = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def remember(self, more: dict[str, Any]) -> None:
        """Add entries. If two processes add at once, the entries of one may be lost."""
        with reporting_write_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(self._path) as making:
                making.write_text(json.dumps({**self.recall(), **more}), encoding="utf-8")


class Digests:
    """Computes digests of files and caches them in `digests.json` of a cache folder."""

    def __init__(self, cache: Path) -> None:
        self._memory = JsonMemory(cache / "digests.json")

    def of(self, path: Path) -> str:
        """Return the digest of a file's content."""
        with reporting_read_errors(path):
            state = path.stat()
            stamp = [state.st_size, state.st_mtime_ns, state.st_ino]
            cached = self._memory.recall().get(str(path.resolve()))
            if isinstance(cached, list) and cached[:-1] == stamp:
                return str(cached[-1])
            digest = file_digest(path)
        self._memory.remember({str(path.resolve()): [*stamp, digest]})
        return digest


def file_digest(path: Path) -> str:
    """Compute the digest of a file's content."""
    digest = blake2b(digest_size=16)
    with path.open("rb") as stream:
        while block := stream.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()
