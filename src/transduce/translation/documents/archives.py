"""ZIP archives that may come from strangers: some members replaced, all others as they are.

Nothing is unpacked to disk, and an archive inside an archive is never opened.
"""

import io
import re
import zipfile
from collections.abc import Mapping
from copy import copy

from transduce.errors import InputError
from transduce.files.zip_members import DAMAGED, reason_to_refuse, reason_to_refuse_all
from transduce.translation.documents.limits import (
    MAX_MEMBERS,
    MAX_RATIO,
    MAX_TEXT_BYTES,
    MAX_UNPACKED_BYTES,
    check_size,
)

BLOCK_BYTES = 1 << 16
MACROS = re.compile(r"(^|/)(vbaProject\w*\.bin|vbaData\.xml|Basic/.*|Scripts/.*)$", re.IGNORECASE)
"""Members that hold programs of a document."""
_CENTRAL_HEADER = b"PK\x01\x02"
_DAMAGED = (*DAMAGED, OSError, RuntimeError, MemoryError)
"""What zipfile raises when it reads a damaged archive."""


class Archive:
    """An archive in memory, checked before anything in it is read."""

    def __init__(self, content: bytes, name: str) -> None:
        self.name = name
        if content.count(_CENTRAL_HEADER) > MAX_MEMBERS:
            raise InputError(f"{name} has more than {MAX_MEMBERS:,} members")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except _DAMAGED as damaged:
            raise self._damaged(damaged) from damaged
        self._members = self._zip.infolist()
        self.names = frozenset(member.filename for member in self._members)
        for member in self._members:
            self._check(member)
        self._check_sizes(len(content))

    def read(self, member: str) -> bytes:
        """Return the content of a member that has text."""
        if member not in self.names:
            raise InputError(f"{self.name} has no member {member[:100]!r}: is it damaged?")
        info = self._zip.getinfo(member)
        check_size(info.file_size, MAX_TEXT_BYTES, f"{self.name}: {member[:100]}")
        return self._unpacked(info)

    def with_members(self, changed: Mapping[str, bytes]) -> bytes:
        """Return an archive with other content in some members, all in the same order."""
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w") as out:
            out.comment = self._zip.comment
            for member in self._members:
                if member.filename in changed:
                    out.writestr(copy(member), changed[member.filename])
                else:
                    self._copy(member, out)
        return written.getvalue()

    def _copy(self, member: zipfile.ZipInfo, out: zipfile.ZipFile) -> None:
        """Copy a member as it is, a little at a time."""
        size = 0
        try:
            with self._zip.open(copy(member)) as stream, out.open(copy(member), "w") as written:
                while block := stream.read(BLOCK_BYTES):
                    written.write(block)
                    size += len(block)
        except _DAMAGED as damaged:
            raise self._damaged(damaged) from damaged
        self._check_complete(member, size)

    def _unpacked(self, member: zipfile.ZipInfo) -> bytes:
        try:
            with self._zip.open(copy(member)) as stream:
                content = stream.read(member.file_size + 1)
        except _DAMAGED as damaged:
            raise self._damaged(damaged) from damaged
        self._check_complete(member, len(content))
        return content

    def _check_complete(self, member: zipfile.ZipInfo, size: int) -> None:
        if size != member.file_size:
            raise InputError(f"{self.name} is damaged: {member.filename[:100]} is not complete")

    def _check(self, member: zipfile.ZipInfo) -> None:
        name, what = member.filename, reason_to_refuse(member)
        if not what and MACROS.search(name):
            what = "is a macro, which is refused for safety: save the file without macros"
        if what:
            raise InputError(f"{self.name}: its member {name[:100]!r} {what}")

    def _check_sizes(self, size: int) -> None:
        unpacked = sum(member.file_size for member in self._members)
        check_size(unpacked, MAX_UNPACKED_BYTES, f"{self.name} unpacked")
        if what := reason_to_refuse_all(self._members, size, max_ratio=MAX_RATIO):
            raise InputError(f"{self.name} {what}")

    def _damaged(self, fault: BaseException) -> InputError:
        return InputError(f"{self.name} cannot be read as a ZIP archive: {str(fault)[:100]}")
