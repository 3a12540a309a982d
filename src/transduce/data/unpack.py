"""Archives unpacked without trusting what is in them."""

import contextlib
import gzip
import hashlib
import html
import math
import posixpath
import re
import tarfile
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PureWindowsPath
from typing import IO, cast

from transduce.data.integrity import CHUNK_BYTES, RejectedFileError, part_of, reading, writing
from transduce.data.progress import OnStep, Step

# tarfile reads a member's headers into memory, however long they claim to be
HEADER_BYTES = 1 << 20
MAX_MEMBERS = 100_000  # tarfile keeps every member that it has seen
MAX_SEGMENT_CHARS = 1 << 16


def unpack(archive: Path, targets: Mapping[str, Path], *, report: OnStep) -> dict[Path, str]:
    """Write some members of a .tar, .tgz or .gz as plain text; return the sha256 of each file.

    A member that ends in .gz is unpacked in turn; one in .sgm becomes one line a segment. The one
    member of a .gz has the archive's own name.
    """
    try:
        with reading(archive):
            sums = _write_parts(archive, targets, report)
        for target in sums:
            with writing(target):
                part_of(target).replace(target)
    finally:
        for target in targets.values():
            part_of(target).unlink(missing_ok=True)
    return sums


def segments(stream: IO[bytes]) -> Iterator[str]:
    """Give the text of each <seg> of a WMT test set, in order, one line each, without entities."""
    text, count = "", 0
    decoder = getincrementaldecoder("utf-8")()  # a character may be cut where a long line is
    while line := stream.readline(MAX_SEGMENT_CHARS):
        text += decoder.decode(line)
        while found := re.search(r"<seg\b[^>]*>(.*?)</seg>", text, re.DOTALL | re.IGNORECASE):
            yield _one_line(found[1])
            text, count = text[found.end() :], count + 1
        if "<seg" not in text.lower():
            text = text[-3:]  # a tag may be cut too
        if len(text) > MAX_SEGMENT_CHARS:
            break
    if "<seg" in text.lower() or not count:
        raise ValueError("it has no <seg>, or one without an end")


def _write_parts(archive: Path, targets: Mapping[str, Path], report: OnStep) -> dict[Path, str]:
    """Write the wanted members under temporary names, once the archive is found fit."""
    gzip_only = archive.suffix == ".gz" and not archive.stem.endswith(".tar")
    total = archive.stat().st_size
    if not total:
        raise EOFError("it is empty")
    if not gzip_only:
        _check_members(archive, targets, report)
    sums = {}
    for name, stream, position in (_gzip_member if gzip_only else _tar_members)(archive, targets):
        target, state = targets[name], hashlib.sha256()
        with writing(target), part_of(target).open("wb") as file:
            for chunk in _plain(stream, name):
                file.write(chunk)
                state.update(chunk)
                report(Step("unpack", archive.name, position(), total))
        sums[target] = state.hexdigest()
    report(Step("unpack", archive.name, total, total, finished=True))
    return sums


class _TarBytes:
    """A tar archive's bytes, decompressed, of which no more may be read than is allowed."""

    def __init__(self, file: IO[bytes], *, compressed: bool) -> None:
        self._bytes = gzip.GzipFile(fileobj=file) if compressed else file
        self.allowed: float = HEADER_BYTES

    def read(self, size: int) -> bytes:
        self.allowed -= size
        if self.allowed < 0:
            raise tarfile.ReadError("a member's headers are too long")
        return self._bytes.read(size)


@contextlib.contextmanager
def _open_tar(archive: Path) -> Iterator[tuple[tarfile.TarFile, _TarBytes, Callable[[], int]]]:
    """Read a tar from front to back, and to its very end: there gzip has its own checksum."""
    with archive.open("rb") as file:
        content = _TarBytes(file, compressed=archive.suffix != ".tar")
        with tarfile.open(fileobj=cast(IO[bytes], content), mode="r|") as tar:
            yield tar, content, file.tell
        content.allowed = math.inf
        while content.read(CHUNK_BYTES):
            pass


def _check_members(archive: Path, wanted: Mapping[str, Path], report: OnStep) -> None:
    """Refuse the whole archive for one bad member, before anything of it is written."""
    missing, total = set(wanted), archive.stat().st_size
    with _open_tar(archive) as (tar, content, position):
        for count, member in enumerate(tar):
            reason = _reason_to_refuse(member, archive.parent)
            if _name(member) in wanted and not member.isreg():
                reason = reason or "is not a plain file"
            if reason or count >= MAX_MEMBERS:
                reason = reason or f"is one of more than {MAX_MEMBERS:,}"
                raise RejectedFileError(f"{archive.name} is refused: {member.name!r} {reason}")
            missing.discard(_name(member))
            content.allowed = HEADER_BYTES + member.size
            report(Step("check", archive.name, position(), total))
    if missing:
        raise RejectedFileError(f"{archive.name} has no member {min(missing)!r}")
    report(Step("check", archive.name, total, total, finished=True))


def _reason_to_refuse(member: tarfile.TarInfo, folder: Path) -> str:
    """Say what is wrong with a member; nothing is written under its name in any case."""
    if _leads_outside(member.name):
        return "would be written outside the folder"
    if member.issym() or member.islnk():
        # A symbolic link counts from where it stands, a hard one from the top of the archive.
        base = posixpath.dirname(member.name) if member.issym() else ""
        if _leads_outside(posixpath.join(base, member.linkname)):
            return "is a link that leads outside the folder"
    elif not (member.isreg() or member.isdir()):
        return "is a device or a pipe"
    if hasattr(tarfile, "data_filter"):  # from Python 3.11.4 on: a second opinion
        try:
            tarfile.data_filter(member, str(folder))
        except tarfile.FilterError as fault:
            return f"is not safe ({fault})"
    return ""


def _leads_outside(name: str) -> bool:
    """Read a name as Windows does, which knows both kinds of slash and drives."""
    path = PureWindowsPath(posixpath.normpath(name.replace("\\", "/")))
    return bool(path.anchor) or ".." in path.parts


def _name(member: tarfile.TarInfo) -> str:
    return member.name.removeprefix("./")


_Member = tuple[str, IO[bytes], Callable[[], int]]


def _tar_members(archive: Path, wanted: Mapping[str, Path]) -> Iterator[_Member]:
    with _open_tar(archive) as (tar, content, position):
        content.allowed = math.inf  # its headers have been checked
        for member in tar:
            stream = tar.extractfile(member) if _name(member) in wanted else None
            if stream is not None:
                yield _name(member), stream, position


def _gzip_member(archive: Path, _wanted: Mapping[str, Path]) -> Iterator[_Member]:
    with archive.open("rb") as file:
        yield archive.name, file, file.tell


def _plain(stream: IO[bytes], name: str) -> Iterator[bytes]:
    """Give a member's text in chunks."""
    if name.endswith(".gz"):
        stream = cast(IO[bytes], gzip.GzipFile(fileobj=stream))
    if name.removesuffix(".gz").endswith(".sgm"):
        yield from (f"{segment}\n".encode() for segment in segments(stream))
    else:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


def _one_line(text: str) -> str:
    # Only what ends in a semicolon: html.unescape alone would make "¬" of the "&not" in "R&notes".
    # Only ASCII blanks are trimmed: a no-break space is part of a French sentence.
    text = re.sub(r"&#?\w+;", lambda entity: html.unescape(entity[0]), text)
    return re.sub(r"[ \t]*[\r\n]+[ \t]*", " ", text.strip(" \t\r\n"))
