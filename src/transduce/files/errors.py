"""System errors about a file, reported as one line that names it and says what to do."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transduce.errors import InputError

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_BAD_LOCATION = (
    errno.EACCES,
    errno.EISDIR,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
)


@contextmanager
def reporting_write_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into an InputError: `cannot write <path>: <reason>; <what to do>`."""
    try:
        yield
    except OSError as fault:
        raise InputError(
            f"cannot write {path}: {fault.strerror or fault}{_remedy(fault)}"
        ) from fault


@contextmanager
def reporting_read_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into an InputError: `cannot read <path>: <reason>`."""
    try:
        yield
    except OSError as fault:
        raise InputError(f"cannot read {path}: {fault.strerror or fault}") from fault


def _remedy(fault: OSError) -> str:
    if fault.errno in _DISK_FULL:
        return "; free some disk space and run the command again"
    if fault.errno in _BAD_LOCATION:
        return "; choose a folder you can write to"
    return ""
