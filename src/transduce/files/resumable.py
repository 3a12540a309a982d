"""Files that are written line by line, appear when they are complete, and can be continued.

Until a file is complete, its lines are in `<file>.partial`, beside `<file>.partial.json`, the
description of what they are made from. A process that makes the same file from the same things
goes on after the last whole line. One that makes it from other things is refused: lines that took
hours are never dropped unasked.
"""

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

from transduce.errors import InputError
from transduce.files.atomic import atomic_file, commit_file, partial_name, sole_writer
from transduce.files.errors import reporting_read_errors, reporting_write_errors
from transduce.files.locks import locked_own_file
from transduce.files.regular import read_json

RecordOf = Callable[[int, bytes], int | None]
"""Returns the number of the record that a line belongs to, given the line's number, from 0.

None: it is no line of a record.
"""
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Change:
    """Something that the lines found were made from, and what it is now."""

    name: str
    before: Any
    now: Any

    def __str__(self) -> str:
        """Name both values."""
        return f"{self.name} {_shown(self.before)}, not {_shown(self.now)}"


class ResumableFile:
    """The lines of a file that is being written; `resumable_file` opens it."""

    def __init__(self, stream: BinaryIO, partial: Path, changes: "list[Change]") -> None:
        """`changes` are the differences that do not keep the lines from being continued."""
        self.changes = changes
        self._stream = stream
        self._partial = partial

    def complete_records(self, record_of: RecordOf, *, most_lines: int) -> int:
        """Count the records that are there, of at most so many lines each.

        If the last one has fewer lines, some may be missing, so it does not count. Lines that are
        not those of records in order raise `InputError`.
        """
        last, lines = -1, 0
        for number, (_, line) in enumerate(self._whole_lines()):
            record = record_of(number, line)
            if record == last + 1:
                last, lines = record, 0
            lines += 1
            if record != last or lines > most_lines:
                raise InputError(
                    f"{self._partial} line {number + 1:,} was changed or damaged: "
                    f"{_how_to_start_over(self._partial)}"
                )
        return last + 1 - (0 < lines < most_lines)

    def keep(self, records: int, record_of: RecordOf) -> None:
        """Keep the first records only; what is written next follows them."""
        end = 0
        for number, (line_end, line) in enumerate(self._whole_lines()):
            record = record_of(number, line)
            if record is None or record >= records:
                break
            end = line_end
        self._stream.truncate(end)
        self._stream.seek(end)

    def write(self, lines: Iterable[str]) -> None:
        """Write the lines of one record, at once."""
        self._stream.write(b"".join(line.encode() + b"\n" for line in lines))
        self._stream.flush()

    def _whole_lines(self) -> Iterator[tuple[int, bytes]]:
        """Stream the end of each whole line and its content; a kill may have cut the last one."""
        self._stream.seek(0)
        end = 0
        for line in self._stream:
            end += len(line)
            if line.endswith(b"\n"):
                yield end, line


@contextmanager
def resumable_file(
    path: Path,
    made_from: dict[str, Any],
    *,
    may_change: Collection[str] = (),
    left_out: Mapping[str, Any] = NOTHING,
) -> Iterator[ResumableFile]:
    """Give a file to write to, which gets its name when the block ends without an error.

    If it ends with one, or the process is killed, the lines stay for the next process that calls
    this with the same `made_from`, except for what `may_change`. What the earlier process does not
    name, because its version is older, has the value in `left_out`; without one it does not count,
    and neither does what this process does not name. Any other difference raises `InputError` and
    leaves everything as it is.
    """
    final = path.resolve()  # a link stays: the file that it points to is replaced
    partial, description = _names(final)
    with reporting_write_errors(path), _locked_partial(partial, final) as stream:
        changes = _changes(stream, partial, description, made_from, left_out)
        decisive = [change for change in changes if change.name not in may_change]
        if decisive:
            raise InputError(
                f"{partial} was begun with {'; '.join(map(str, decisive))}, which may give other "
                f"lines: give the same command again to go on; {_how_to_start_over(partial)}"
            )
        if not os.fstat(stream.fileno()).st_size:
            with atomic_file(description) as making:
                making.write_text(json.dumps(made_from), encoding="utf-8")
        try:
            yield ResumableFile(stream, partial, changes)
        except BaseException:
            if not os.fstat(stream.fileno()).st_size:
                partial.unlink(missing_ok=True)
                description.unlink(missing_ok=True)
            raise
        commit_file(partial, final)
        description.unlink(missing_ok=True)


def differences(
    before: dict[str, Any], now: dict[str, Any], *, left_out: Mapping[str, Any] = NOTHING
) -> list[Change]:
    """Return what differs, among what both of two descriptions know of.

    left_out: the values of what the first one may leave out.
    """
    known = {**left_out, **before}
    return [
        Change(name, known[name], now[name])
        for name in now
        if name in known and now[name] != known[name]
    ]


def content_digest(paths: Iterable[Path]) -> str:
    """Return a digest of the contents of some files, in order."""
    digest = blake2b(digest_size=16)
    for path in paths:
        size = 0
        with reporting_read_errors(path), path.open("rb") as stream:
            while block := stream.read(1 << 22):
                size += len(block)
                digest.update(block)
        digest.update(f"\n{size}\n".encode())  # so that no two lists of files look the same
    return digest.hexdigest()


def _names(path: Path) -> tuple[Path, Path]:
    return partial_name(path), path.with_name(f"{path.name}.partial.json")


@contextmanager
def _locked_partial(partial: Path, final: Path) -> Iterator[BinaryIO]:
    with ExitStack() as stack:
        with sole_writer(final):
            stream = stack.enter_context(locked_own_file(partial, written=final))
        yield stream


def _shown(value: Any) -> str:
    """Write a value as in JSON, but short: of a digest, the first digits will do."""
    if isinstance(value, list) and value:
        return " and ".join(map(_shown, value))
    if isinstance(value, str) and re.fullmatch("[0-9a-f]{32}", value):
        return value[:8]
    return "none" if value is None else json.dumps(value, ensure_ascii=False)


def _how_to_start_over(partial: Path) -> str:
    return f"to start over, remove {partial} or choose another --out"


def _changes(
    stream: BinaryIO,
    partial: Path,
    description: Path,
    made_from: dict[str, Any],
    left_out: Mapping[str, Any],
) -> list[Change]:
    """Return what differs from what the lines found there were made from."""
    if not os.fstat(stream.fileno()).st_size:
        return []
    known: Any = None
    with suppress(OSError, ValueError):
        known = read_json(description)
    if not isinstance(known, dict):
        raise InputError(f"{partial} is in the way, and nothing says what it is of: move it away")
    now = json.loads(json.dumps(made_from))  # as it is read back
    return differences(known, now, left_out=left_out)
