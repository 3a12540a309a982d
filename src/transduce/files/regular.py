"""Files of folders that may come from strangers: regular ones only, of a limited size.

A FIFO would be waited for, a device read without an end. Everything else is an OSError that says
why, which callers report like any other file that cannot be read.
"""

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

MIB = 2**20


def open_regular(path: Path, *, max_bytes: int | None = None) -> BinaryIO:
    """Open a regular file for reading, or a link to one; raise if it has more bytes."""
    check_regular(path.stat(), path, max_bytes)  # before a device is opened, which may do something
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        check_regular(os.fstat(descriptor), path, max_bytes)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, *, max_bytes: int) -> bytes:
    """Read a regular file, or raise an OSError if it is another or has more bytes."""
    with open_regular(path, max_bytes=max_bytes) as file:
        return _read(file, path, max_bytes)


def read_stream(path: Path, *, max_bytes: int) -> bytes:
    """Read what the user names, which may also be a pipe; raise if it has more bytes."""
    with path.open("rb") as stream:
        return _read(stream, path, max_bytes)


def read_json(path: Path, *, max_bytes: int = MIB) -> Any:
    """Read a JSON file; what is not JSON, or nested too deeply, is a ValueError."""
    return parse_json(read_regular(path, max_bytes=max_bytes).decode("utf-8"))


def parse_json(text: str) -> Any:
    """Parse JSON; what is not JSON, or nested too deeply, is a ValueError."""
    try:
        return json.loads(text)
    except RecursionError as deep:
        raise ValueError("it is nested too deeply") from deep


def copy_file(source: Path, target: Path, *, max_bytes: int) -> None:
    """Copy the content of a regular file, or of one that a link leads to, into a new one."""
    content = read_regular(source, max_bytes=max_bytes)
    with target.open("xb") as written:
        written.write(content)


def check_no_link(path: Path) -> None:
    """Raise an OSError if a path is a link, whatever it leads to."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link: put the file itself in its place", str(path))


def check_regular(state: os.stat_result, path: Path, max_bytes: int | None) -> None:
    """Raise an OSError unless this is the state of a regular file of at most that size."""
    if stat.S_ISDIR(state.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(state.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    if max_bytes is not None and state.st_size > max_bytes:
        raise _too_large(state.st_size, path, max_bytes)


def _read(file: BinaryIO, path: Path, max_bytes: int) -> bytes:
    content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise _too_large(len(content), path, max_bytes)
    return content


def _too_large(size: int, path: Path, max_bytes: int) -> OSError:
    message = f"it has {size:,} bytes or more, but such a file has at most {max_bytes:,}"
    return OSError(errno.EFBIG, message, str(path))
