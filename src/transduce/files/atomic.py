"""Files and folders that are either complete or absent, even if the process is killed.

Content is written under a temporary name, flushed to disk and then renamed. The temporary name is
random, and its file or folder stays locked while it is written. So the next writer can tell what a
killed process left behind from what another process is still writing.
"""

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from transduce.files.locks import locked


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder to write to; rename it to `folder` when the block ends.

    The caller flushes the files inside with `sync`. If two processes create the same folder at
    once, the first to finish wins and the other's copy is dropped.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        with locked(folder.parent):  # until the new folder is locked, it looks like a leftover
            _remove_leftover_folders(folder)
            making = _temporary_name(folder)
            making.mkdir()
            stack.enter_context(locked(making))
        stack.callback(shutil.rmtree, making, ignore_errors=True)
        yield making
        sync(making)
        with locked(folder.parent):
            if not folder.exists():
                making.rename(folder)
        sync(folder.parent)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Give a temporary file to write to; rename it to `path` when the block ends.

    If writing fails, the temporary file is removed and `path` is unchanged. If two processes write
    the same file at once, the last to finish wins.
    """
    _remove_leftover_files(path)
    making, descriptor = _create_locked(path)
    try:
        yield making
        commit_file(making, path)
    finally:
        with suppress(OSError):
            making.unlink()
        os.close(descriptor)


def commit_file(written: Path, path: Path) -> None:
    """Flush a complete temporary file to disk and rename it to `path`."""
    sync(written)
    written.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until the content of a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _temporary_name(path: Path) -> Path:
    return path.with_name(f"{path.name}.{secrets.token_hex(8)}.making")


def _create_locked(path: Path) -> tuple[Path, int]:
    """Create a temporary file that no other process can have opened, and lock it."""
    while True:
        making = _temporary_name(path)
        descriptor = os.open(making, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        with suppress(OSError):  # a file system without locks: there leftovers are not removed
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_named(descriptor, making):
            return making, descriptor
        os.close(descriptor)  # removed as a leftover before it was locked: try another name


def _is_named(descriptor: int, path: Path) -> bool:
    """Whether an open file is the one that a path names."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _remove_leftover_files(path: Path) -> None:
    # Earlier versions wrote to one fixed name, `<file>.making`.
    pattern = re.compile(re.escape(path.name) + r"(\.[0-9a-f]{16})?\.making")
    for leftover in _matching(path.parent, pattern):
        if leftover.is_file() and not leftover.is_symlink():
            with suppress(OSError), locked(leftover, wait=False):
                leftover.unlink()


def _remove_leftover_folders(folder: Path) -> None:
    pattern = re.compile(re.escape(folder.name) + r"\.[0-9a-f]{16}\.making")
    for leftover in _matching(folder.parent, pattern):
        with suppress(OSError), locked(leftover, wait=False):
            shutil.rmtree(leftover, ignore_errors=True)


def _matching(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    with os.scandir(folder) as entries:
        return [folder / entry.name for entry in entries if pattern.fullmatch(entry.name)]
