"""What is looked at in a ZIP archive from a stranger before any of its content is read."""

import re
import stat
import zipfile
import zlib
from collections.abc import Sequence

DAMAGED = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    OverflowError,
    ValueError,
    IndexError,
)
"""What zipfile raises for a damaged archive; OSError too, where the archive is in memory."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 1
_UNSAFE_NAME = re.compile(r"(^|/)\.\.?(/|$)|^/|^[A-Za-z]:|[\\\x00-\x1f]|//")


def reason_to_refuse(member: zipfile.ZipInfo) -> str:
    """Say what is wrong with one member, or nothing."""
    if not member.filename or _UNSAFE_NAME.search(member.filename):
        return "leads out of the archive"
    if stat.S_ISLNK(member.external_attr >> 16):
        return "is a link"
    if member.flag_bits & _ENCRYPTED:
        return "is encrypted: remove the password first"
    if member.compress_type not in _METHODS:
        return "is compressed by another method than deflate"
    return ""


def reason_to_refuse_all(
    members: Sequence[zipfile.ZipInfo], archive_bytes: int, *, max_ratio: int
) -> str:
    """Say what is wrong with all members together, or nothing; sizes are as they are declared."""
    if len({member.filename for member in members}) != len(members):
        return "has two members of the same name"
    if sum(member.compress_size for member in members) > archive_bytes:
        return "has members that overlap"
    unpacked = sum(member.file_size for member in members)
    return reason_to_refuse_size(unpacked, archive_bytes, max_ratio=max_ratio)


def reason_to_refuse_size(unpacked: int, archive_bytes: int, *, max_ratio: int) -> str:
    """Say what is wrong with the size of what an archive of any kind contains, or nothing."""
    if unpacked <= max_ratio * archive_bytes:
        return ""
    return (
        f"has {unpacked:,} bytes unpacked, more than {max_ratio} times its size, which is "
        "refused for safety"
    )
