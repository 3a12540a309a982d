"""Digests of files, cached for as long as a file's size and time stamps stay the same."""

import json
import time
from hashlib import blake2b
from pathlib import Path
from typing import Any

from transduce.files.atomic import atomic_file
from transduce.files.errors import reporting_read_errors, reporting_write_errors
from transduce.files.regular import MIB, read_json
from transduce.files.unchanged import ReadFile, active_digests, stamp_of

SETTLED_NS = 2 * 10**9
"""A file that is older shows every later write to it by its time stamps, on any file system."""
MAX_MEMORY_BYTES = 256 * MIB
"""A larger cache file is taken for a damaged one."""


class JsonMemory:
    """A JSON object in a cache file; a lost or damaged file only costs computing it again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def recall(self) -> dict[str, Any]:
        """Return all stored entries; none if the file is missing or damaged."""
        try:
            known = read_json(self._path, max_bytes=MAX_MEMORY_BYTES)
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
    """Computes digests of files and caches them in `digests.json` of a cache folder.

    While `unchanged_files` is in force, all digests are of what was read, or will have to be read.
    """

    def __init__(self, cache: Path) -> None:
        self._memory = JsonMemory(cache / "digests.json")

    def of(self, path: Path) -> str:
        """Return the digest of a file's content."""
        active = active_digests()
        read = active.of(path) if active else None
        if read is None:
            with reporting_read_errors(path):
                read = self._cached(path) or _digested(path)
            if active:
                active.add(path, read)
        self._remember(path, read)
        return read.digest

    def _cached(self, path: Path) -> ReadFile | None:
        stamp = stamp_of(path.stat())
        known = self._memory.recall().get(str(path.resolve()))
        if not isinstance(known, list) or known[:-1] != list(stamp):
            return None
        return ReadFile(str(known[-1]), stamp)

    def _remember(self, path: Path, read: ReadFile) -> None:
        """Cache a digest, unless a write to the file might leave its time stamps as they are."""
        if read.stamp is None or time.time_ns() - max(read.stamp[1:3]) < SETTLED_NS:
            return
        name, entry = str(path.resolve()), [*read.stamp, read.digest]
        if self._memory.recall().get(name) != entry:
            self._memory.remember({name: entry})


def _digested(path: Path) -> ReadFile:
    before = stamp_of(path.stat())
    digest = file_digest(path)
    return ReadFile(digest, before if stamp_of(path.stat()) == before else None)


def file_digest(path: Path) -> str:
    """Compute the digest of a file's content."""
    digest = blake2b(digest_size=16)
    with path.open("rb") as stream:
        while block := stream.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()
