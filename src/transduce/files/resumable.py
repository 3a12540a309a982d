"""Files that are written line by line, appear when they are complete, and can be continued.

Until a file is complete, its lines are in `<file>.partial`, beside `<file>.partial.json`, the
description of what they are made from. A process that makes the same file from the same things
goes on after the last whole line; from other things, it starts over.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

from transduce.errors import InputError
from transduce.files.atomic import atomic_file, commit_file
from transduce.files.errors import reporting_read_errors, reporting_write_errors

RecordOf = Callable[[int, bytes], int]
"""Returns the number of the record that a line belongs to, given the line's number, from 0."""


class ResumableFile:
    """The lines of a file that is being written; `resumable_file` opens it."""

    def __init__(self, stream: BinaryIO, changed: list[str]) -> None:
        """`changed` names what differs from what the lines found there were made from."""
        self.changed = changed
        self._stream = stream

    def complete_records(self, record_of: RecordOf, *, most_lines: int) -> int:
        """Count the records that are there, of at most so many lines each.

        If the last one has fewer lines, some may be missing, so it does not count.
        """
        count, last, lines = 0, -1, 0
        for number, (_, line) in enumerate(self._whole_lines()):
            record = record_of(number, line)
            if record != last:
                count, last, lines = count + 1, record, 0
            lines += 1
        return count - (0 < lines < most_lines)

    def keep(self, records: int, record_of: RecordOf) -> None:
        """Keep the first records only; what is written next follows them."""
        end = 0
        for number, (line_end, line) in enumerate(self._whole_lines()):
            if record_of(number, line) >= records:
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
def resumable_file(path: Path, made_from: dict[str, Any]) -> Iterator[ResumableFile]:
    """Give a file to write to, which gets its name when the block ends without an error.

    If it ends with one, or the process is killed, the lines stay for the next process that calls
    this with the same `made_from`.
    """
    final = path.resolve()  # a link stays: the file that it points to is replaced
    partial, description = _names(final)
    with reporting_write_errors(path), _open_locked(partial, path) as stream:
        changed = _changed(stream, partial, description, made_from)
        if changed or not os.fstat(stream.fileno()).st_size:
            stream.truncate(0)
            with atomic_file(description) as making:
                making.write_text(json.dumps(made_from), encoding="utf-8")
        try:
            yield ResumableFile(stream, changed)
        except BaseException:
            if not os.fstat(stream.fileno()).st_size:
                partial.unlink(missing_ok=True)
                description.unlink(missing_ok=True)
            raise
        commit_file(partial, final)
        description.unlink(missing_ok=True)


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
    return path.with_name(f"{path.name}.partial"), path.with_name(f"{path.name}.partial.json")


@contextmanager
def _open_locked(partial: Path, path: Path) -> Iterator[BinaryIO]:
    while True:
        stream = os.fdopen(os.open(partial, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        with stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"another command is writing {path}: let it end") from None
            except OSError:
                pass  # a file system without locks
            if _is_named(stream, partial):  # else another command has just completed it
                yield stream
                return


def _is_named(stream: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _changed(
    stream: BinaryIO, partial: Path, description: Path, made_from: dict[str, Any]
) -> list[str]:
    """Name what differs from what the lines found there were made from; none if there are none."""
    if not os.fstat(stream.fileno()).st_size:
        return []
    known: Any = None
    with suppress(OSError, ValueError):
        known = json.loads(description.read_text(encoding="utf-8"))
    if not isinstance(known, dict):
        raise InputError(f"{partial} is in the way, and nothing says what it is of: move it away")
    now = json.loads(json.dumps(made_from))  # as it is read back
    return [name for name in {**now, **known} if now.get(name) != known.get(name)]
