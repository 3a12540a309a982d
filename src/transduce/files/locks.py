"""Locks between processes, held on a file or folder."""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from transduce.errors import InputError


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the exclusive lock of a file or folder; it is released when the process ends.

    With `wait=False`, raise BlockingIOError if another process holds the lock.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether another process holds the lock of a regular file; a link is not followed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False


@contextmanager
def locked_own_file(path: Path, *, written: Path) -> Iterator[BinaryIO]:
    """Open and lock a file that keeps its name between processes; create it if it is not there.

    Its name can be guessed, so what someone else has put there is not followed or overwritten.
    `written` is the file that will be made of it, for the message if another process has the lock.
    """
    while True:
        with os.fdopen(_open_own(path), "r+b") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise being_written(written) from None
            except OSError:
                pass  # a file system without locks
            if is_named(stream.fileno(), path):  # else another process has just completed it
                yield stream
                return


def being_written(path: Path) -> InputError:
    """Return the error for a file that another process is writing."""
    return InputError(f"another command is writing {path}: let it end")


def is_named(descriptor: int, path: Path) -> bool:
    """Whether an open file is the one that a path names."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    return False


def _open_own(path: Path) -> int:
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(path, flags, 0o666)
    except OSError as fault:
        if fault.errno != errno.ELOOP:
            raise
        raise InputError(f"{path} is in the way, and it is a link: move it away") from None
    state = os.fstat(descriptor)
    if stat.S_ISREG(state.st_mode) and state.st_nlink <= 1:
        return descriptor
    os.close(descriptor)
    what = "it is a hard link" if stat.S_ISREG(state.st_mode) else "it is not a regular file"
    raise InputError(f"{path} is in the way, and {what}: move it away")
