"""Checksums of what is written, so that damage is told when it is read, instead of used.

They detect an accident, not a forgery: CRC-32, at a gigabyte a second. Files that are written
together have theirs in `checksums.json` beside them; without that file nothing is compared.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from transduce.errors import InputError
from transduce.files.atomic import atomic_file
from transduce.files.errors import reporting_read_errors, reporting_write_errors
from transduce.files.regular import open_regular, read_json

CHECKSUMS = "checksums.json"
RECORD_CHECKSUM = "checksum"
"""The key of a JSON object under which its own checksum is kept."""

BLOCK_BYTES = 1 << 22


class DamagedFileError(InputError):
    """A file is not as it was written."""

    def __init__(self, path: Path, reason: str, remedy: str, *, message: str = "") -> None:
        """`reason` says what is wrong with it, `remedy` what to do; `message` may say both."""
        super().__init__(message or f"{path} is damaged ({reason}): {remedy}")
        self.path, self.reason = path, reason


def write_checksums(folder: Path, names: Iterable[str]) -> None:
    """Note the checksums of files in a folder, besides those that are noted already."""
    path = folder / CHECKSUMS
    noted: dict[str, Any] = {}
    with suppress(DamagedFileError):
        noted = _noted(folder)
    for name in names:
        size, crc = fingerprint(folder / name)
        noted[name] = {"bytes": size, "crc32": f"{crc:08x}"}
    with reporting_write_errors(path), atomic_file(path) as making:
        making.write_text(json.dumps(noted, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def files_in(folder: Path) -> list[str]:
    """Return the names of all files in a folder and its subfolders, except that of checksums."""
    paths = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    return [path.as_posix() for path in paths if path != Path(CHECKSUMS)]


def check_files(folder: Path, names: Iterable[str] | None = None) -> None:
    """Raise `DamagedFileError` if one of these files differs from what was noted; None: of all."""
    noted = _noted(folder)
    for name in noted if names is None else names:
        is_inside = not PurePosixPath(name).is_absolute() and ".." not in PurePosixPath(name).parts
        if is_inside and (folder / name).is_file() and not _matches(folder / name, noted.get(name)):
            raise DamagedFileError(
                folder / name,
                "its checksum differs from that in " + CHECKSUMS,
                f"copy it again; if you have changed it yourself, remove {folder / CHECKSUMS}",
            )


def is_as_written(path: Path) -> bool:
    """Return whether a file is as it was written, or nothing is noted of it."""
    return not path.is_file() or _matches(path, _noted(path.parent).get(path.name))


def with_checksum(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with its own checksum."""
    return {**record, RECORD_CHECKSUM: _record_checksum(record)}


def check_record(record: Any, path: Path, remedy: str) -> None:
    """Raise if a JSON object has a checksum that is not its own."""
    if not isinstance(record, dict) or RECORD_CHECKSUM not in record:
        return
    rest = {name: value for name, value in record.items() if name != RECORD_CHECKSUM}
    if record[RECORD_CHECKSUM] != _record_checksum(rest):
        raise DamagedFileError(path, "its checksum differs", remedy)


def fingerprint(path: Path) -> tuple[int, int]:
    """Return the size of a file and the CRC-32 of its content."""
    size, crc = 0, 0
    with reporting_read_errors(path), open_regular(path) as stream:
        while block := stream.read(BLOCK_BYTES):
            size, crc = size + len(block), zlib.crc32(block, crc)
    return size, crc


def _record_checksum(record: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(record, sort_keys=True).encode()):08x}"


def _noted(folder: Path) -> dict[str, Any]:
    path = folder / CHECKSUMS
    if not path.exists():
        return {}
    try:
        with reporting_read_errors(path):
            noted = read_json(path)
        for entry in noted.values():
            int(entry["crc32"], 16)
            int(entry["bytes"])
    except (ValueError, TypeError, KeyError, AttributeError) as malformed:
        remedy = "copy it again, or remove it: then nothing is compared"
        raise DamagedFileError(path, "it is no list of checksums", remedy) from malformed
    found: dict[str, Any] = noted
    return found


def _matches(path: Path, entry: Mapping[str, Any] | None) -> bool:
    if entry is None:
        return True
    with reporting_read_errors(path):
        if path.stat().st_size != entry["bytes"]:
            return False
    return fingerprint(path)[1] == int(entry["crc32"], 16)
