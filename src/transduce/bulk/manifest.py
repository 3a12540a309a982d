"""The manifest of a folder of parts: what they are made from, and which are done.

`manifest.jsonl` has one JSON object a line, each with its own checksum: first what everything is
made from, then a line for each part once its file is on the disk, at last how many lines there are
in all. Lines are only added, so a manifest of many parts costs no more to keep than a short one.
"""

import json
import os
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from transduce.errors import InputError
from transduce.files.atomic import atomic_file, sync
from transduce.files.checksums import (
    RECORD_CHECKSUM,
    DamagedFileError,
    check_record,
    fingerprint,
    with_checksum,
)
from transduce.files.errors import reporting_write_errors
from transduce.files.locks import locked_own_file
from transduce.files.regular import MIB, parse_json
from transduce.files.resumable import NOTHING, Change, differences

MANIFEST = "manifest.jsonl"
FIRST_BYTES = b'{"made_from": '
PART_FILE = re.compile(r"part-\d{8,}\.(txt|jsonl)(\.[0-9a-f]{16}\.making)?")


@dataclass(frozen=True)
class FinishedPart:
    """A file that is done: the translations of a shard."""

    part: int  # the number of the shard
    first: int  # the number of its first line of input
    lines: int  # of input
    bytes: int
    crc32: str


class Manifest:
    """The manifest of a folder; `opened_manifest` opens it."""

    def __init__(self, folder: Path, stream: BinaryIO) -> None:
        self._folder, self._path, self._stream = folder, folder / MANIFEST, stream
        self.made_from: dict[str, Any] = {}
        self.parts: dict[int, FinishedPart] = {}
        self.is_complete = False
        self._read()

    def begin(
        self,
        made_from: dict[str, Any],
        *,
        may_change: Collection[str],
        left_out: Mapping[str, Any] = NOTHING,
    ) -> list[Change]:
        """Note what parts are made from; return what differs from that of the parts found.

        left_out: the values of what the manifest may leave out. A change of anything else than
        `may_change` raises `InputError`, and leaves everything as it is.
        """
        now = json.loads(json.dumps(made_from))  # as it is read back
        if not self.parts:
            self._clear()
            self._append({"made_from": now})
            self.made_from = now
            return []
        changes = differences(self.made_from, now, left_out=left_out)
        decisive = [change for change in changes if change.name not in may_change]
        if decisive:
            raise InputError(
                f"{self._folder} was begun with {'; '.join(map(str, decisive))}, which may give "
                "other lines: give the same command again to go on; to start over, remove "
                f"{self._folder} or choose another --out"
            )
        return changes

    @property
    def lines_done(self) -> int:
        """How many lines of input have their translations in a part."""
        return sum(one.lines for one in self.parts.values() if self.path_of(one.part).exists())

    def path_of(self, part: int) -> Path:
        """Return the file of a part; in order of their names, parts are the whole text."""
        ending = ".jsonl" if self.made_from.get("jsonl") else ".txt"
        return self._folder / f"part-{part:08}{ending}"

    def is_done(self, part: int, *, first: int, lines: int) -> bool:
        """Whether a part is there, as it was written; raise if it was changed since."""
        known = self.parts.get(part)
        if known is None or not self.path_of(part).exists():
            return False
        if (known.first, known.lines) != (first, lines):
            raise self._damaged(f"part {part} begins or ends elsewhere")
        if fingerprint(self.path_of(part)) != (known.bytes, int(known.crc32, 16)):
            raise DamagedFileError(
                self.path_of(part),
                f"its checksum differs from that in {MANIFEST}",
                "remove it: the same command writes it again",
            )
        return True

    def write_part(self, part: int, *, first: int, outputs: Iterable[Iterable[str]]) -> None:
        """Write the file of a part, given the lines of output for each line of input."""
        path = self.path_of(part)
        size = crc = count = 0
        with reporting_write_errors(path), atomic_file(path) as making, making.open("wb") as stream:
            for output in outputs:
                block = b"".join(line.encode() + b"\n" for line in output)
                stream.write(block)
                size, crc, count = size + len(block), zlib.crc32(block, crc), count + 1
        done = FinishedPart(part, first, count, size, f"{crc:08x}")
        self._append(asdict(done))
        self.parts[part] = done

    def complete(self, *, lines: int, parts: int) -> None:
        """Note that all parts are done."""
        if not self.is_complete:
            self._append({"lines_in_all": lines, "parts_in_all": parts})
            self.is_complete = True

    def _append(self, record: dict[str, Any]) -> None:
        with reporting_write_errors(self._path):
            self._stream.seek(0, os.SEEK_END)
            self._stream.write(json.dumps(with_checksum(record)).encode() + b"\n")
            self._stream.flush()
            os.fsync(self._stream.fileno())

    def _read(self) -> None:
        """Read all records; a last one that a kill has cut is removed."""
        self._stream.seek(0)
        end = 0
        while line := self._stream.readline(MIB):
            if not line.endswith(b"\n") and len(line) < MIB:
                if end == 0 and not FIRST_BYTES.startswith(line[: len(FIRST_BYTES)]):
                    raise self._damaged("it is no manifest of parts")  # a file of someone else
                break
            self._add(line, is_first=end == 0)
            end += len(line)
        self._stream.truncate(end)

    def _add(self, line: bytes, *, is_first: bool) -> None:
        try:
            record = parse_json(line.decode())
            check_record(record, self._path, self._remedy)
            del record[RECORD_CHECKSUM]
            if is_first:
                self.made_from = dict(record["made_from"])
            elif "lines_in_all" in record:
                self.is_complete = True
            else:
                part = FinishedPart(**record)
                if min(part.part, part.first, part.lines, part.bytes, int(part.crc32, 16)) < 0:
                    raise ValueError("a number below 0")
                self.parts[part.part] = part
        except (ValueError, TypeError, KeyError, AttributeError) as malformed:
            raise self._damaged("it is no manifest of parts") from malformed

    def _clear(self) -> None:
        """Make room for the first record; raise if the folder has files that are not ours.

        A process that was killed before it could note its first part may have left the file.
        """
        with os.scandir(self._folder) as entries:
            found = sorted(entry.name for entry in entries if entry.name != MANIFEST)
        others = [name for name in found if not self.made_from or not PART_FILE.fullmatch(name)]
        if others:
            if not self.made_from:
                self._path.unlink()
            raise InputError(
                f"{self._folder} has other files ({others[0]}): choose a new or an empty folder "
                "for --out"
            )
        for name in found:
            (self._folder / name).unlink()
        self._stream.truncate(0)

    @property
    def _remedy(self) -> str:
        return "to start over, remove it and the parts beside it, or choose another --out"

    def _damaged(self, reason: str) -> DamagedFileError:
        return DamagedFileError(self._path, reason, self._remedy)


@contextmanager
def opened_manifest(folder: Path) -> Iterator[Manifest]:
    """Open the manifest of a folder; both are created if they are not there.

    Raises `InputError` if another process has it open.
    """
    with reporting_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with locked_own_file(folder / MANIFEST, written=folder) as stream:
            sync(folder)
            yield Manifest(folder, stream)
