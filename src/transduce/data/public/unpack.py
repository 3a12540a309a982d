"""Unpacking archives without trusting their content."""

import gzip
import hashlib
import html
import math
import posixpath
import re
import tarfile
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path, PureWindowsPath
from typing import IO, cast

from transduce.data.public.integrity import CHUNK_BYTES, RejectedFileError, rejecting_damage
from transduce.data.public.progress import FileProgress, OnProgress
from transduce.data.public.unzip import MAX_RATIO, check_zip, zip_members
from transduce.files.atomic import atomic_file
from transduce.files.errors import reporting_write_errors
from transduce.files.zip_members import reason_to_refuse_size

HEADER_BYTES = 1 << 20  # tarfile reads a member's headers into memory, whatever size they claim
MAX_MEMBERS = 100_000  # tarfile keeps every member it has seen in memory
MAX_SEGMENT_CHARS = 1 << 16


def unpack(
    archive: Path,
    targets: Mapping[str, Path],
    *,
    report: OnProgress,
    check: Callable[[Mapping[Path, str]], None] = lambda _sums: None,
) -> dict[Path, str]:
    """Write some members of a .zip, .tar, .tgz or .gz as plain text; return each file's sha256.

    A member that ends in .gz is decompressed; one in .sgm becomes one line per segment. The single
    member of a .gz has the archive's own name. All files are written, or none; `check` is called
    with their sha256 before they get their names, and may raise. What is unpacked has at most
    `MAX_RATIO` times the bytes of the archive.
    """
    with rejecting_damage(archive):
        if not archive.stat().st_size:
            raise EOFError("it is empty")
        if not _is_gzip_only(archive):
            _check_members(archive, targets, report)
    with ExitStack() as stack:  # renames the files, in the end, if nothing was raised
        sums = _write_members(archive, targets, stack=stack, report=report)
        check(sums)
        return sums


def segments(stream: IO[bytes]) -> Iterator[str]:
    """Yield the text of each <seg> of a WMT test set as one line, with entities decoded."""
    text, count = "", 0
    decoder = getincrementaldecoder("utf-8")()  # a long line may be cut within a character
    while line := stream.readline(MAX_SEGMENT_CHARS):
        text += decoder.decode(line)
        while found := re.search(r"<seg\b[^>]*>(.*?)</seg>", text, re.DOTALL | re.IGNORECASE):
            yield _one_line(found[1])
            text, count = text[found.end() :], count + 1
        if "<seg" not in text.lower():
            text = text[-3:]  # the start of a tag that was cut
        if len(text) > MAX_SEGMENT_CHARS:
            break
    if "<seg" in text.lower() or not count:
        raise ValueError("it has no <seg>, or one without an end")


def _is_gzip_only(archive: Path) -> bool:
    return archive.suffix == ".gz" and not archive.stem.endswith(".tar")


def _write_members(
    archive: Path, targets: Mapping[str, Path], *, stack: ExitStack, report: OnProgress
) -> dict[Path, str]:
    """Write members to temporary files that the stack renames; return the sha256 of each."""
    total, written = archive.stat().st_size, 0
    files: dict[Path, Path] = {}
    sums: dict[Path, str] = {}
    for name, stream, position in _members(archive, targets):
        target, state = targets[name], hashlib.sha256()
        if target not in files:  # of a member that is there twice, the last one counts
            stack.enter_context(reporting_write_errors(target))
            files[target] = stack.enter_context(atomic_file(target))
        with files[target].open("wb") as file:
            for chunk in _chunks(stream, name, archive):
                written += len(chunk)
                _check_size(archive, total, written)
                file.write(chunk)
                state.update(chunk)
                report(FileProgress("unpack", archive.name, position(), total))
        sums[target] = state.hexdigest()
    report(FileProgress("unpack", archive.name, total, total, finished=True))
    return sums


def _check_size(archive: Path, size: int, unpacked: int) -> None:
    if reason := reason_to_refuse_size(unpacked, size, max_ratio=MAX_RATIO):
        raise RejectedFileError(f"{archive.name} is refused: it {reason}")


class _TarBytes:
    """The decompressed bytes of a tar archive, with a limit on how many may be read."""

    def __init__(self, file: IO[bytes], *, compressed: bool) -> None:
        self._bytes = gzip.GzipFile(fileobj=file) if compressed else file
        self.allow(HEADER_BYTES)

    def allow(self, size: float, *, what: str = "a member's headers are") -> None:
        """Set how many bytes may be read from now on, and what is too long if they are more."""
        self._allowed, self._what = size, what

    def read(self, size: int) -> bytes:
        self._allowed -= size
        if self._allowed < 0:
            raise tarfile.ReadError(f"{self._what} too long")
        return self._bytes.read(size)


@contextmanager
def _open_tar(archive: Path) -> Iterator[tuple[tarfile.TarFile, _TarBytes, Callable[[], int]]]:
    """Read a tar from front to back, up to the checksum that gzip has at its very end."""
    with archive.open("rb") as file:
        content = _TarBytes(file, compressed=archive.suffix != ".tar")
        with tarfile.open(fileobj=cast(IO[bytes], content), mode="r|") as tar:
            yield tar, content, file.tell
        most = MAX_RATIO * archive.stat().st_size + HEADER_BYTES
        content.allow(most + CHUNK_BYTES, what="what follows its last member is")
        while content.read(CHUNK_BYTES):
            pass


def _check_members(archive: Path, wanted: Mapping[str, Path], report: OnProgress) -> None:
    """Refuse the whole archive for one bad member, before anything is written."""
    total = archive.stat().st_size
    zipped = archive.suffix == ".zip"
    names = check_zip(archive, wanted) if zipped else _check_tar(archive, wanted, report)
    if missing := wanted.keys() - names:
        raise RejectedFileError(f"{archive.name} has no member {min(missing)!r}")
    report(FileProgress("check", archive.name, total, total, finished=True))


def _check_tar(archive: Path, wanted: Mapping[str, Path], report: OnProgress) -> set[str]:
    """Refuse the whole archive for one bad member; return which of the wanted ones it has."""
    found, total, unpacked = set(), archive.stat().st_size, 0
    with _open_tar(archive) as (tar, content, position):
        for count, member in enumerate(tar):
            reason = _reason_to_refuse(member, archive.parent)
            if _name(member) in wanted and not member.isreg():
                reason = reason or "is not a plain file"
            if reason or count >= MAX_MEMBERS:
                reason = reason or f"is one of more than {MAX_MEMBERS:,}"
                raise RejectedFileError(f"{archive.name} is refused: {member.name!r} {reason}")
            found |= {_name(member)} & wanted.keys()
            unpacked += max(member.size, 0)
            _check_size(archive, total, unpacked)
            content.allow(HEADER_BYTES + member.size)
            report(FileProgress("check", archive.name, position(), total))
    return found


def _reason_to_refuse(member: tarfile.TarInfo, folder: Path) -> str:
    """Say what is wrong with a member, if anything; its name is never used as a path anyway."""
    if _leads_outside(member.name):
        return "would be written outside the folder"
    if member.issym() or member.islnk():
        # A symbolic link is relative to its own folder, a hard link to the top of the archive.
        base = posixpath.dirname(member.name) if member.issym() else ""
        if _leads_outside(posixpath.join(base, member.linkname)):
            return "is a link that leads outside the folder"
    elif not (member.isreg() or member.isdir()):
        return "is a device or a pipe"
    if hasattr(tarfile, "data_filter"):  # from Python 3.11.4 on: a second check
        try:
            tarfile.data_filter(member, str(folder))
        except tarfile.FilterError as fault:
            return f"is not safe ({fault})"
    return ""


def _leads_outside(name: str) -> bool:
    """Whether a path leaves its folder, read as Windows does: drives and both kinds of slash."""
    path = PureWindowsPath(posixpath.normpath(name.replace("\\", "/")))
    return bool(path.anchor) or ".." in path.parts


def _name(member: tarfile.TarInfo) -> str:
    return member.name.removeprefix("./")


def _members(
    archive: Path, wanted: Mapping[str, Path]
) -> Iterator[tuple[str, IO[bytes], Callable[[], int]]]:
    """Yield name, content and position in the archive of each wanted member."""
    with rejecting_damage(archive):
        if _is_gzip_only(archive):
            with archive.open("rb") as file:
                yield archive.name, file, file.tell
            return
        if archive.suffix == ".zip":
            yield from zip_members(archive, wanted)
            return
        with _open_tar(archive) as (tar, content, position):
            content.allow(math.inf)  # its headers have been checked
            for member in tar:
                stream = tar.extractfile(member) if _name(member) in wanted else None
                if stream is not None:
                    yield _name(member), stream, position


def _chunks(stream: IO[bytes], name: str, archive: Path) -> Iterator[bytes]:
    """Yield a member's text in chunks."""
    with rejecting_damage(archive):
        if name.endswith(".gz"):
            stream = cast(IO[bytes], gzip.GzipFile(fileobj=stream))
        if name.removesuffix(".gz").endswith(".sgm"):
            yield from (f"{segment}\n".encode() for segment in segments(stream))
        else:
            while chunk := stream.read(CHUNK_BYTES):
                yield chunk


def _one_line(text: str) -> str:
    # Only entities with a semicolon: html.unescape alone would turn the "&not" of "R&notes" to "¬".
    # Only ASCII spaces are trimmed: a no-break space is part of a French sentence.
    text = re.sub(r"&#?\w+;", lambda entity: html.unescape(entity[0]), text)
    return re.sub(r"[ \t]*[\r\n]+[ \t]*", " ", text.strip(" \t\r\n"))
