"""Checksums, and telling a damaged file from one that cannot be read."""

import gzip
import hashlib
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transduce.data.public.progress import FileProgress, OnProgress
from transduce.errors import InputError
from transduce.files.errors import reporting_read_errors
from transduce.files.regular import open_regular
from transduce.files.zip_members import DAMAGED

CHUNK_BYTES = 1 << 20


class RejectedFileError(InputError):
    """A file is damaged, is not what its name says, or would write outside its folder."""


def verify(path: Path, expected: str | None, *, name: str, report: OnProgress) -> None:
    """Compare a file with a checksum such as `sha256:9f86…`, where one is known.

    `name` is what messages call the file, which may still have a temporary name.
    """
    if expected is None:
        return
    algorithm, _, wanted = expected.partition(":")
    found = checksum(path, algorithm, name=name, report=report)
    if found != wanted:
        raise RejectedFileError(f"{name} is damaged: its {algorithm} is {found}, expected {wanted}")


def checksum(path: Path, algorithm: str = "sha256", *, name: str, report: OnProgress) -> str:
    """Compute a file's checksum."""
    state, done = hashlib.new(algorithm, usedforsecurity=False), 0
    with reporting_read_errors(path), open_regular(path) as file:
        total = path.stat().st_size
        while chunk := file.read(CHUNK_BYTES):
            state.update(chunk)
            done += len(chunk)
            report(FileProgress("check", name, done, total))
    report(FileProgress("check", name, done, total, finished=True))
    return state.hexdigest()


@contextmanager
def rejecting_damage(archive: Path) -> Iterator[None]:
    """Raise RejectedFileError if an archive is damaged, and InputError if it cannot be read."""
    with reporting_read_errors(archive):
        try:
            yield
        except (tarfile.TarError, gzip.BadGzipFile, *DAMAGED) as fault:
            raise RejectedFileError(f"{archive.name} cannot be unpacked: {fault}") from fault
