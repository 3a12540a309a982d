"""Members of a ZIP archive that is not trusted.

Of a member, at most the size that the archive declares for it is unpacked, and one that is shorter
is refused. All declared sizes together are at most `MAX_RATIO` times the size of the archive.
"""

import io
import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from transduce.data.public.integrity import RejectedFileError
from transduce.files.zip_members import reason_to_refuse, reason_to_refuse_all

MAX_RATIO = 100  # plain text is packed to about a quarter, repetitive text to a twentieth
MAX_LIST_BYTES = 1 << 20  # zipfile reads the list of members into memory: some 20,000 members


class _ZipBytes(io.BufferedReader):
    """The bytes of an archive, with an error for what only a damaged or a hostile one asks for."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MAX_LIST_BYTES:
            raise zipfile.BadZipFile("its list of members is too long")
        return super().read(size)

    def seek(self, target: int, whence: int = io.SEEK_SET, /) -> int:
        if whence == io.SEEK_SET and target < 0:
            raise zipfile.BadZipFile("it has a member before its start")
        return super().seek(target, whence)


@contextmanager
def _open_zip(archive: Path) -> Iterator[tuple[zipfile.ZipFile, Callable[[], int]]]:
    with _ZipBytes(io.FileIO(archive)) as file, zipfile.ZipFile(file) as opened:
        yield opened, file.tell


def check_zip(archive: Path, wanted: Collection[str]) -> set[str]:
    """Refuse the whole archive for one bad member; return the names of all."""
    with _open_zip(archive) as (opened, _):
        members = opened.infolist()
    for member in members:
        reason = reason_to_refuse(member)
        if member.is_dir() and member.filename.rstrip("/") in wanted:
            reason = reason or "is not a plain file"
        if reason:
            raise RejectedFileError(f"{archive.name} is refused: {member.filename!r} {reason}")
    if reason := reason_to_refuse_all(members, archive.stat().st_size, max_ratio=MAX_RATIO):
        raise RejectedFileError(f"{archive.name} is refused: it {reason}")
    return {member.filename for member in members}


def zip_members(
    archive: Path, wanted: Collection[str]
) -> Iterator[tuple[str, IO[bytes], Callable[[], int]]]:
    """Yield name, content and position in the archive of each wanted member."""
    with _open_zip(archive) as (opened, position):
        for member in sorted(opened.infolist(), key=lambda one: one.header_offset):
            if member.filename in wanted:
                with opened.open(member) as stream:
                    yield member.filename, stream, position
                    if stream.tell() != member.file_size:
                        raise EOFError(f"{member.filename} is shorter than it says")
