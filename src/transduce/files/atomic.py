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
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from transduce.files.locks import being_written, is_locked, is_named, locked


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
    yield from _written(path, *_create_locked(path))


@contextmanager
def exclusive_file(path: Path) -> Iterator[Path]:
    """Give a temporary file as `atomic_file` does; raise if another process writes the same file.

    Raises `InputError`: a user has started two commands with one output.
    """
    with sole_writer(path):
        _remove_leftover_files(path)
        making, descriptor = _create_locked(path)
    yield from _written(path, making, descriptor)


@contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Keep others from starting to write a file in this block; raise if one is writing it.

    Whoever starts has locked a temporary file or `<file>.partial` when the block ends.
    """
    with ExitStack() as stack:
        with suppress(OSError):  # a file system without locks, no such folder, or held by others
            _enter_soon(stack, path.parent)
        if any(map(is_locked, [partial_name(path), *_temporary_files(path)])):
            raise being_written(path)
        yield


def _enter_soon(stack: ExitStack, folder: Path) -> None:
    """Lock a folder for as long as the stack lasts; raise if others keep it for more than 2 s."""
    end = time.monotonic() + 2
    while True:
        try:
            stack.enter_context(locked(folder, wait=False))
            return
        except BlockingIOError:
            if time.monotonic() > end:
                raise
        time.sleep(0.01)


def partial_name(path: Path) -> Path:
    """Return where the lines of a file are that a later process may continue."""
    return path.with_name(f"{path.name}.partial")


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


def _written(path: Path, making: Path, descriptor: int) -> Iterator[Path]:
    try:
        yield making
        commit_file(making, path)
    finally:
        with suppress(OSError):
            making.unlink()
        os.close(descriptor)


def _create_locked(path: Path) -> tuple[Path, int]:
    """Create a temporary file that no other process can have opened, and lock it."""
    while True:
        making = _temporary_name(path)
        descriptor = os.open(making, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        with suppress(OSError):  # a file system without locks: there leftovers are not removed
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if is_named(descriptor, making):
            return making, descriptor
        os.close(descriptor)  # removed as a leftover before it was locked: try another name


def _temporary_files(path: Path) -> list[Path]:
    # Earlier versions wrote to one fixed name, `<file>.making`.
    pattern = re.compile(re.escape(path.name) + r"(\.[0-9a-f]{16})?\.making")
    return _matching(path.parent, pattern)


def _remove_leftover_files(path: Path) -> None:
    for leftover in _temporary_files(path):
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
