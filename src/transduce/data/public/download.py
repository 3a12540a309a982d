"""Files fetched completely or not at all, from a server or another folder.

Bytes received so far stay in `<file>.part`, and `<file>.part.json` notes which version of the file
they belong to. The next attempt resumes there if the server still has that version.
"""

import http.client
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import IO, NoReturn, cast

from transduce.data.public.integrity import CHUNK_BYTES, RejectedFileError, verify
from transduce.data.public.progress import FileProgress, OnProgress
from transduce.errors import InputError, counted
from transduce.files.atomic import atomic_file, commit_file
from transduce.files.errors import reporting_read_errors, reporting_write_errors
from transduce.files.locks import locked_own_file
from transduce.files.regular import read_json


@dataclass(frozen=True)
class RetryPolicy:
    """How long to wait for a server, and how many attempts in a row may bring less than 1 MiB."""

    timeout_s: float = 30.0
    attempts: int = 5
    pause_s: float = 1.0  # doubles with each attempt


class _InterruptedError(Exception):
    """An attempt ended early; the next one may bring the rest."""


def fetch_file(
    source: str | Path,
    path: Path,
    *,
    expected: str | None,
    retries: RetryPolicy,
    report: OnProgress,
) -> None:
    """Bring a file from a URL or another folder to `path`, resuming an earlier download."""
    part = path.with_name(path.name + ".part")
    with _locked_part(part, path):
        if isinstance(source, Path):
            _copy(source, part, report)
        else:
            _download(source, part, retries, report)
        try:
            verify(part, expected, name=path.name, report=report)
        except RejectedFileError as damaged:
            part.unlink()
            _delete_version(part)
            raise RejectedFileError(f"{source}: {damaged}; it was not kept") from damaged
        with reporting_write_errors(path):
            commit_file(part, path)
        _delete_version(part)


@contextmanager
def _locked_part(part: Path, path: Path) -> Iterator[None]:
    """Let one process at a time write the part of a file; leave none without bytes."""
    with ExitStack() as stack:
        with reporting_write_errors(part):
            opened = stack.enter_context(locked_own_file(part, written=path))
            if os.fstat(opened.fileno()).st_size and not _version_file(part).exists():
                raise InputError(
                    f"{part} is there already and is no download of ours: move it away, or choose "
                    "another folder"
                )
        try:
            yield
        finally:
            if _read_version(part) == (None, 0) and part.exists() and not part.stat().st_size:
                part.unlink()


def _copy(source: Path, part: Path, report: OnProgress) -> None:
    """Copy from another folder, always from the start: that is quick."""
    with reporting_read_errors(source):
        file = source.open("rb")
        total = source.stat().st_size

    def read(size: int) -> bytes:
        with reporting_read_errors(source):
            return file.read(size)

    _start_part(part, _Version())
    with file, reporting_write_errors(part), part.open("wb") as copy:
        _write_all(read, copy, FileProgress("download", source.name, 0, total), report)


def _write_all(
    read: Callable[[int], bytes], file: IO[bytes], start: FileProgress, report: OnProgress
) -> int:
    """Write all that `read` returns; return the size that the file then has."""
    name, done, total = start.name, start.done_bytes, start.total_bytes
    report(start)
    while chunk := read(CHUNK_BYTES):
        file.write(chunk)
        done += len(chunk)
        report(FileProgress("download", name, done, total))
    report(FileProgress("download", name, done, total, finished=total in (None, done)))
    return done


@dataclass(frozen=True)
class _Version:
    """What a server's headers say about a file; if its content changes, so does one of these."""

    length: int | None = None
    etag: str | None = None
    modified: str | None = None

    def matches(self, other: "_Version") -> bool:
        """Whether all that both servers state is equal, and there is something that both state."""
        both = [pair for pair in zip(astuple(self), astuple(other), strict=True) if all(pair)]
        return bool(both) and all(mine == theirs for mine, theirs in both)


def _opener() -> urllib.request.OpenerDirector:
    """Open HTTP and HTTPS only, so that no redirect leads to a local file or to FTP."""
    opener = urllib.request.OpenerDirector()
    # The proxies of the user's environment: some networks have no other way out.
    proxies = {k: v for k, v in urllib.request.getproxies().items() if k in ("http", "https", "no")}
    for handler in (
        urllib.request.ProxyHandler(proxies),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _download(url: str, part: Path, retries: RetryPolicy, report: OnProgress) -> None:
    """Try until the file is complete, or several attempts in a row have brought almost nothing."""
    failures, furthest = 0, 0
    while True:
        try:
            return _resume(url, part, retries.timeout_s, report)
        except _InterruptedError as interruption:
            reached = part.stat().st_size if part.exists() else 0
            failures = 1 if reached >= furthest + CHUNK_BYTES else failures + 1
            furthest = max(furthest, reached)
            if failures >= retries.attempts:
                raise InputError(
                    f"cannot download {url}: {interruption} "
                    f"(tried {counted(failures, 'time')}); run the"
                    f" command again to resume, or give a --mirror that has {part.stem}"
                ) from interruption
            report(FileProgress("download", part.stem, reached, retry_reason=str(interruption)))
            time.sleep(retries.pause_s * 2 ** (failures - 1))


def _resume(url: str, part: Path, timeout_s: float, report: OnProgress) -> None:
    """Make one attempt, from the end of the part if the server still has the same file."""
    known, offset = _read_version(part)
    if known is not None and offset == known.length:
        return  # stopped between the last byte and the checksum
    with _request(url, part, offset, known, timeout_s) as response:
        found, start = _version_and_start(response)
        if start and (start != offset or known is None or not known.matches(found)):
            _discard(part)
            raise _InterruptedError("the file has changed on the server")
        if not start:
            _start_part(part, found)  # no bytes yet, or ranges are not supported, or a new version
        progress = FileProgress("download", part.stem, start, found.length)
        with reporting_write_errors(part), part.open("ab") as file:
            done = _write_all(_reader(response), file, progress, report)
    if found.length not in (None, done):
        raise _InterruptedError(f"the connection ended at byte {done:,} of {found.length:,}")


def _request(
    url: str, part: Path, offset: int, known: _Version | None, timeout_s: float
) -> http.client.HTTPResponse:
    headers = {"User-Agent": "transduce", "Accept-Encoding": "identity"}
    if offset and known is not None:
        headers["Range"] = f"bytes={offset}-"
        validator = known.etag or known.modified
        if validator and not validator.startswith("W/"):  # RFC 9110, 13.1.5: no weak ones here
            headers["If-Range"] = validator
    try:
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - see _opener
        return cast(http.client.HTTPResponse, _opener().open(request, timeout=timeout_s))
    except urllib.error.HTTPError as answer:
        with answer:
            _refused(url, part, answer)
    except (ValueError, http.client.InvalidURL) as malformed:
        raise InputError(f"{url} is not a valid URL: {malformed}") from malformed
    except (OSError, http.client.HTTPException) as fault:
        raise _InterruptedError(str(getattr(fault, "reason", fault)) or repr(fault)) from fault


def _refused(url: str, part: Path, answer: urllib.error.HTTPError) -> NoReturn:
    said = f"the server answers {answer.code} {answer.reason}"
    if answer.code == 416:
        _discard(part)  # the file is shorter than the part we have
    elif answer.code < 500 and answer.code not in (408, 429):
        raise InputError(f"cannot download {url}: {said}; give a --mirror that has {part.stem}")
    raise _InterruptedError(said)


def _reader(response: http.client.HTTPResponse) -> Callable[[int], bytes]:
    def read(size: int) -> bytes:
        try:
            return response.read1(size)
        except (OSError, http.client.HTTPException) as fault:
            raise _InterruptedError(f"the connection was lost ({fault!r})") from fault

    return read


def _version_and_start(response: http.client.HTTPResponse) -> tuple[_Version, int]:
    """Return which version the server sends, and from which byte on (0: the whole file)."""
    length, start = response.headers["Content-Length"], 0
    if response.status == 206:
        parts = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers["Content-Range"] or "")
        if parts is None or parts[1] == "0":
            raise _InterruptedError("the server sent another part of the file than requested")
        start, length = int(parts[1]), parts[2]
    total = int(length) if length and length.isdecimal() else None
    return _Version(total, response.headers["ETag"], response.headers["Last-Modified"]), start


def _version_file(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _read_version(part: Path) -> tuple[_Version | None, int]:
    """Return the version and the size of the part; (None, 0) unless both files are there."""
    try:
        version = _Version(**read_json(_version_file(part)))
        return version, part.stat().st_size
    except (OSError, ValueError, TypeError):
        return None, 0


def _start_part(part: Path, version: _Version) -> None:
    # The part is emptied first: in the other order, a kill would leave old bytes under a new
    # version.
    with reporting_write_errors(part):
        part.write_bytes(b"")
        with atomic_file(_version_file(part)) as making:
            making.write_text(json.dumps(asdict(version)), encoding="utf-8")


def _discard(part: Path) -> None:
    """Empty the part before its version is deleted: bytes without a version are not ours."""
    with reporting_write_errors(part):
        part.write_bytes(b"")
    _delete_version(part)


def _delete_version(part: Path) -> None:
    with reporting_write_errors(part):
        _version_file(part).unlink(missing_ok=True)
