"""Files and folders that are complete or not there, whatever is killed."""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path


@contextmanager
def in_the_making(folder: Path) -> Iterator[Path]:
    """Give a folder to write in, and rename it to its own name when all is written.

    Two processes may make the same at once: the first to finish gives the name, the other's work is
    dropped. A killed one leaves a folder of another name, which the next one removes.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        with locked(folder.parent):  # so that nobody takes a new folder for one that was left
            _remove_left(folder)
            making = folder.with_name(f"{folder.name}.{secrets.token_hex(8)}.making")
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
def replacing(path: Path) -> Iterator[Path]:
    """Give another name to write a file under, and make it the file's own once it is on the disk.

    It is always the same name, so that a killed process leaves at most one, for the next to use:
    a file has one writer. If writing fails, what was there before is whole.
    """
    making = path.with_name(f"{path.name}.making")
    try:
        yield making
        sync(making)
        making.replace(path)
        sync(path.parent)
    finally:
        with suppress(OSError):
            making.unlink()


def sync(path: Path) -> None:
    """Wait until a file's or a folder's content is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_left(folder: Path) -> None:
    for left in folder.parent.glob(f"{folder.name}.*.making"):
        try:
            with locked(left, wait=False):
                shutil.rmtree(left, ignore_errors=True)
        except BlockingIOError:
            continue  # somebody is at it


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a file or folder, which ends with this process, however it ends."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)
