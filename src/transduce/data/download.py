"""Files fetched whole or not at all, from a server or another folder.

What one try has brought stays in `<file>.part`, beside a note of which version of the file it is
of; the next try continues it if the server still has that version.
"""

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import IO, NoReturn, cast

from transduce.data.integrity import CHUNK_BYTES, RejectedFileError, part_of, verify, writing
from transduce.data.progress import OnStep, Step
from transduce.errors import InputError


@dataclass(frozen=True)
class Patience:
    """How long to wait for a server, and how many tries that bring less than 1 MiB to allow."""

    timeout_s: float = 30.0
    tries: int = 5
    pause_s: float = 1.0  # doubles with each try


class _InterruptedError(Exception):
    """A try ended early; the next one may bring the rest."""


def fetch(
    source: str | Path, path: Path, *, expected: str | None, patience: Patience, report: OnStep
) -> None:
    """Bring a URL's or another folder's file to `path`, continuing what an earlier try left."""
    part = part_of(path)
    if isinstance(source, Path):
        _copy(source, part, report)
    else:
        _download(source, part, patience, report)
    try:
        verify(part, expected, report=report)
    except RejectedFileError as damaged:
        part.unlink()
        _forget(part)
        raise RejectedFileError(f"{source}: {damaged}; it was not kept") from damaged
    with writing(path):
        part.replace(path)
        _forget(part)


def _copy(source: Path, part: Path, report: OnStep) -> None:
    """Copy from another folder. It starts anew each time: that is quick, and needs no memory."""
    try:
        file = source.open("rb")
        total = source.stat().st_size
    except OSError as fault:
        raise InputError(f"cannot read {source}: {fault.strerror}; put the file there") from fault
    _forget(part)
    with file, writing(part), part.open("wb") as copy:
        _pour(file.read, copy, Step("download", source.name, 0, total), report)


def _pour(read: Callable[[int], bytes], file: IO[bytes], step: Step, report: OnStep) -> int:
    """Write all that `read` gives; return the size that the file then has."""
    name, done, total = step.name, step.done_bytes, step.total_bytes
    report(step)
    while chunk := read(CHUNK_BYTES):
        file.write(chunk)
        done += len(chunk)
        report(Step("download", name, done, total))
    report(Step("download", name, done, total, finished=total in (None, done)))
    return done


@dataclass(frozen=True)
class _Version:
    """What a server says of a file; when the content changes, so does some of this."""

    length: int | None = None
    etag: str | None = None
    modified: str | None = None

    def is_also(self, other: "_Version") -> bool:
        both = [pair for pair in zip(astuple(self), astuple(other), strict=True) if all(pair)]
        return bool(both) and all(mine == theirs for mine, theirs in both)


def _opener() -> urllib.request.OpenerDirector:
    """Speak HTTP and HTTPS only, so that no redirection leads to a local file or to FTP."""
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


def _download(url: str, part: Path, patience: Patience, report: OnStep) -> None:
    """Try until all is there, or until several tries in a row have brought next to nothing."""
    failures, furthest = 0, 0
    while True:
        try:
            return _continue(url, part, patience.timeout_s, report)
        except _InterruptedError as interruption:
            reached = part.stat().st_size if part.exists() else 0
            failures = 1 if reached >= furthest + CHUNK_BYTES else failures + 1
            furthest = max(furthest, reached)
            if failures >= patience.tries:
                raise InputError(
                    f"cannot download {url}: {interruption} (tried {failures} times); run the"
                    " command again to continue, or give a --mirror that has the file"
                ) from interruption
            report(Step("download", part.stem, reached, trouble=str(interruption)))
            time.sleep(patience.pause_s * 2 ** (failures - 1))


def _continue(url: str, part: Path, timeout_s: float, report: OnStep) -> None:
    """Make one try, from where the part ends if the server still has the same file."""
    known, offset = _remembered(part)
    if known is not None and offset == known.length:
        return  # stopped between the last byte and the checksum
    with _request(url, part, offset, known, timeout_s) as response:
        found, start = _version_and_start(response)
        if start and (start != offset or known is None or not known.is_also(found)):
            _forget(part)
            raise _InterruptedError("the file has changed on the server")
        if not start:
            _begin(part, found)  # nothing yet, or the server ignores ranges, or has a new file
        read = _reader(response)
        step = Step("download", part.stem, start, found.length)
        with writing(part), part.open("ab") as file:
            done = _pour(read, file, step, report)
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
        raise InputError(f"{url} is not an address: {malformed}") from malformed
    except (OSError, http.client.HTTPException) as fault:
        raise _InterruptedError(str(getattr(fault, "reason", fault)) or repr(fault)) from fault


def _refused(url: str, part: Path, answer: urllib.error.HTTPError) -> NoReturn:
    said = f"the server answers {answer.code} {answer.reason}"
    if answer.code == 416:
        _forget(part)  # the file is shorter than what we have of it
    elif answer.code < 500 and answer.code not in (408, 429):
        raise InputError(f"cannot download {url}: {said}; give a --mirror that has the file")
    raise _InterruptedError(said)


def _reader(response: http.client.HTTPResponse) -> Callable[[int], bytes]:
    def read(size: int) -> bytes:
        try:
            return response.read1(size)
        except (OSError, http.client.HTTPException) as fault:
            raise _InterruptedError(f"the connection was lost ({fault!r})") from fault

    return read


def _version_and_start(response: http.client.HTTPResponse) -> tuple[_Version, int]:
    """Read what the server sends, and from which byte on (0: the whole file)."""
    length, start = response.headers["Content-Length"], 0
    if response.status == 206:
        parts = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers["Content-Range"] or "")
        if parts is None or parts[1] == "0":
            raise _InterruptedError("the server sent another part of the file than was asked for")
        start, length = int(parts[1]), parts[2]
    total = int(length) if length and length.isdecimal() else None
    return _Version(total, response.headers["ETag"], response.headers["Last-Modified"]), start


def _memory(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _remembered(part: Path) -> tuple[_Version | None, int]:
    """Say which version the part is of, and its size; nothing if the two are not both there."""
    try:
        version = _Version(**json.loads(_memory(part).read_text(encoding="utf-8")))
        return version, part.stat().st_size
    except (OSError, ValueError, TypeError):
        return None, 0


def _begin(part: Path, version: _Version) -> None:
    # Emptied first: were it the other way round, a kill would leave old bytes under a new version.
    with writing(part):
        part.write_bytes(b"")
        _memory(part).write_text(json.dumps(asdict(version)), encoding="utf-8")


def _forget(part: Path) -> None:
    with writing(part):
        _memory(part).unlink(missing_ok=True)
