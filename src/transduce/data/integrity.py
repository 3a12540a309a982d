"""Files that are whole and right, or are not there: checksums, temporary names and faults.

A file grows under the name `<file>.part` and takes its own name only when it is complete, so
whatever stops the program leaves nothing that looks finished.
"""

import contextlib
import errno
import gzip
import hashlib
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from transduce.data.progress import OnStep, Step
from transduce.errors import InputError

CHUNK_BYTES = 1 << 20


class RejectedFileError(InputError):
    """A file is damaged, is not what its name says, or would write where it may not."""


def verify(path: Path, expected: str | None, *, report: OnStep) -> None:
    """Compare a file with a checksum such as `sha256:9f86…`, where one is known."""
    if expected is None:
        return
    algorithm, _, wanted = expected.partition(":")
    found = digest(path, algorithm, report=report)
    if found != wanted:
        name = path.name.removesuffix(".part")
        raise RejectedFileError(f"{name} is damaged: its {algorithm} is {found}, expected {wanted}")


def digest(path: Path, algorithm: str = "sha256", *, report: OnStep) -> str:
    """Compute a file's checksum."""
    state = hashlib.new(algorithm, usedforsecurity=False)
    name, done = path.name.removesuffix(".part"), 0
    with reading(path), path.open("rb") as file:
        total = path.stat().st_size
        while chunk := file.read(CHUNK_BYTES):
            state.update(chunk)
            done += len(chunk)
            report(Step("check", name, done, total))
    report(Step("check", name, done, total, finished=True))
    return state.hexdigest()


def part_of(path: Path) -> Path:
    """Name the file that grows until it is complete."""
    return path.with_name(path.name + ".part")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a full disk or a missing permission into a message that says what to do."""
    try:
        yield
    except gzip.BadGzipFile:
        raise  # an OSError by inheritance, but about what is read
    except OSError as fault:
        full = fault.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = (
            "make room and run the command again" if full else "choose a folder you may write to"
        )
        raise InputError(f"cannot write {path}: {fault.strerror or fault}; {remedy}") from fault


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Tell a file that is damaged, and so rejected, from one that cannot be read."""
    try:
        yield
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError) as fault:
        raise RejectedFileError(f"{path.name} cannot be unpacked: {fault}") from fault
    except OSError as fault:
        raise InputError(f"cannot read {path}: {fault.strerror or fault}") from fault
