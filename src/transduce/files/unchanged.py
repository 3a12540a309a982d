"""Files that are read more than once: their bytes are digested while they are read, and compared.

What is made from a text is named by the digest of the bytes that were read, so that text which
changes meanwhile is noticed, however it was changed.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from hashlib import blake2b
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

from transduce.errors import InputError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BUFFER_BYTES = 1 << 18

_Item = TypeVar("_Item")

Stamp = tuple[int, ...]
"""Changes with every write to a file, except for two within one tick of the clock."""


class ChangedFileError(InputError):
    """A file has other bytes than when it was read before."""

    def __init__(self, path: Path) -> None:
        """`path` as the user named it."""
        super().__init__(
            f"{path} was changed while it was read: run the command again once it stays the same"
        )
        self.path = path


@dataclass(frozen=True)
class ReadFile:
    """What a file was when it was read to its end."""

    digest: str
    stamp: Stamp | None = None  # None: it may have been written to meanwhile


class ReadDigests:
    """The digests of files as they were first read; whoever reads a file again finds the same."""

    def __init__(self) -> None:
        self._files: dict[str, ReadFile] = {}

    def of(self, path: Path) -> ReadFile | None:
        """Return what a file was when it was first read; None: it was not."""
        return self._files.get(_key(path))

    def add(self, path: Path, read: ReadFile) -> None:
        """Note what was read; raise `ChangedFileError` if it was something else before."""
        if self._files.setdefault(_key(path), read).digest != read.digest:
            raise ChangedFileError(path)


_active: ContextVar[ReadDigests | None] = ContextVar("_active", default=None)


def active_digests() -> ReadDigests | None:
    """Return the digests that `unchanged_files` has put in force."""
    return _active.get()


@contextmanager
def unchanged_files(digests: ReadDigests | None = None) -> Iterator[ReadDigests]:
    """Raise `ChangedFileError` if a file that is read in this block is not what it was before.

    Before is an earlier read in the block, or one that `digests` knows of. Within another such
    block, that block's digests are used unless others are given.
    """
    used = digests or _active.get() or ReadDigests()
    token = _active.set(used)
    try:
        yield used
    finally:
        _active.reset(token)


def compared_in_threads(items: Iterable[_Item]) -> Iterator[_Item]:
    """Stream what is read, with the comparison in force here, whichever thread asks for it."""
    context, iterator, end = copy_context(), iter(items), object()

    def in_context() -> Iterator[_Item]:
        while (item := context.run(next, iterator, end)) is not end:
            yield cast(_Item, item)

    return in_context()


@contextmanager
def opened_unchanged(path: Path) -> Iterator[BinaryIO]:
    """Open a file to be read to its end; then it is compared, if `unchanged_files` is in force."""
    digests = _active.get()
    with path.open("rb", buffering=0) as raw:
        if digests is None:
            yield BufferedReader(raw, BUFFER_BYTES)
            return
        before = stamp_of(os.fstat(raw.fileno()))
        reader = _DigestingReader(raw)
        stream = BufferedReader(reader, BUFFER_BYTES)
        yield stream
        while stream.read(BUFFER_BYTES):  # what a decompressor has left
            pass
        is_same = stamp_of(os.fstat(raw.fileno())) == before
        digests.add(path, ReadFile(reader.digest(), before if is_same else None))


def stamp_of(state: os.stat_result) -> Stamp:
    """Return what tells from a file's state whether it was written to."""
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino


class _DigestingReader(RawIOBase):
    """Digests all bytes that are read."""

    def __init__(self, raw: RawIOBase) -> None:
        self._raw = raw
        self._state = blake2b(digest_size=16)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int | None:
        count = self._raw.readinto(buffer)
        if count:
            self._state.update(memoryview(buffer)[:count])
        return count

    def digest(self) -> str:
        return self._state.hexdigest()


def _key(path: Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100 - a link may lead elsewhere meanwhile
