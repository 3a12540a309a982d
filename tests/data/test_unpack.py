"""Archives that misbehave."""

import gzip
import io
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import IO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.test_download import names, sha256, silent
from transduce.data.public.integrity import RejectedFileError
from transduce.data.public.unpack import segments, unpack
from transduce.errors import InputError


def member(name: str, **attributes: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for attribute, value in attributes.items():
        setattr(info, attribute, value)
    return info


def write_tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:" if path.suffix == ".tar" else "w:gz") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def tar_bytes(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return write_tar(Path(folder, "x.tar"), *members).read_bytes()


def gzipped(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content))
    return path


WANTED = (member("train/a.en"), b"one\ntwo\n")


def write_zip(path: Path, *members: tuple[zipfile.ZipInfo | str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for info, content in members:
            out.writestr(info, content)
    return path


def zipped(name: str, **attributes: object) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    for attribute, value in attributes.items():
        setattr(info, attribute, value)
    return info


def alter(archive: Path, name: str, at: int, value: bytes) -> None:
    """Change what the list of members says of one, at an offset within its entry."""
    content = bytearray(archive.read_bytes())
    entry = content.index(name.encode(), content.index(b"PK\x01\x02")) - 46
    content[entry + at : entry + at + len(value)] = value
    archive.write_bytes(content)


FLAGS, CHECKSUM, PACKED_SIZE, SIZE = 8, 16, 20, 24
"""Where an entry of the list of members has these."""


@pytest.mark.parametrize(
    ("hostile", "message"),
    [
        (member("../outside.en"), "outside the folder"),
        (member("train/../../outside.en"), "outside the folder"),
        (member("/tmp/outside.en"), "outside the folder"),  # noqa: S108 - never written
        (member("..\\outside.en"), "outside the folder"),
        (member("C:\\outside.en"), "outside the folder"),
        (member("train/link", type=tarfile.SYMTYPE, linkname="../../x"), "a link that leads"),
        (member("link", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "a link that leads"),
        (member("link", type=tarfile.LNKTYPE, linkname="../x"), "a link that leads"),
        (member("link", type=tarfile.LNKTYPE, linkname="/etc/passwd"), "a link that leads"),
        (member("device", type=tarfile.CHRTYPE), "a device or a pipe"),
        (member("device", type=tarfile.BLKTYPE), "a device or a pipe"),
        (member("pipe", type=tarfile.FIFOTYPE), "a device or a pipe"),
    ],
    ids=lambda value: value.name if isinstance(value, tarfile.TarInfo) else "",
)
@pytest.mark.parametrize("suffix", [".tar", ".tgz"])
def test_a_hostile_archive_is_refused_before_anything_is_written(
    tmp_path: Path, hostile: tarfile.TarInfo, message: str, suffix: str
) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    archive = write_tar(folder / f"hostile{suffix}", WANTED, (hostile, b""))
    with pytest.raises(RejectedFileError, match=rf"hostile{suffix} is refused: .*{message}"):
        unpack(archive, {"train/a.en": folder / "a.en"}, report=silent)
    assert names(folder) == [archive.name]
    assert names(tmp_path) == ["inside"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE])
def test_a_wanted_member_must_be_a_plain_file(tmp_path: Path, kind: bytes) -> None:
    odd = member("train/a.en", type=kind, linkname="train/b.en")
    archive = write_tar(tmp_path / "odd.tgz", (odd, b""))
    with pytest.raises(RejectedFileError, match="is not a plain file"):
        unpack(archive, {"train/a.en": tmp_path / "a.en"}, report=silent)


def test_a_missing_member_is_named(tmp_path: Path) -> None:
    archive = write_tar(tmp_path / "few.tgz", WANTED)
    targets = {"train/a.en": tmp_path / "a.en", "train/a.de": tmp_path / "a.de"}
    with pytest.raises(RejectedFileError, match=r"few\.tgz has no member 'train/a\.de'"):
        unpack(archive, targets, report=silent)
    assert names(tmp_path) == ["few.tgz"]


@pytest.mark.parametrize("before", [(), (WANTED,)])
def test_headers_that_claim_to_be_huge_are_not_read(
    tmp_path: Path, before: tuple[tuple[tarfile.TarInfo, bytes], ...]
) -> None:
    bomb = member("bomb", type=tarfile.XHDTYPE)
    archive = write_tar(tmp_path / "bomb.tgz", *before, (bomb, bytes(8 << 20)), WANTED)
    with pytest.raises(RejectedFileError, match="headers are too long"):
        unpack(archive, {"train/a.en": tmp_path / "a.en"}, report=silent)


@pytest.mark.parametrize(
    ("hostile", "message"),
    [
        (zipped("../outside.en"), "leads out of the archive"),
        (zipped("train/../../outside.en"), "leads out of the archive"),
        (zipped("/tmp/outside.en"), "leads out of the archive"),  # noqa: S108 - never written
        (zipped("..\\outside.en"), "leads out of the archive"),
        (zipped("C:outside.en"), "leads out of the archive"),
        (zipped("link", external_attr=0o120777 << 16), "is a link"),
        (zipped("odd", compress_type=zipfile.ZIP_BZIP2), "another method than deflate"),
        (zipped("a.en/"), "is not a plain file"),
    ],
    ids=lambda value: value.filename if isinstance(value, zipfile.ZipInfo) else "",
)
def test_a_hostile_member_of_a_zip_is_refused_before_anything_is_written(
    tmp_path: Path, hostile: zipfile.ZipInfo, message: str
) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    archive = write_zip(folder / "hostile.zip", ("b.en", b"one\n"), (hostile, b""))
    targets = {"a.en": folder / "a.en", "b.en": folder / "b.en"}
    with pytest.raises(RejectedFileError, match=rf"hostile\.zip is refused: .*{message}"):
        unpack(archive, targets, report=silent)
    assert names(folder) == [archive.name]
    assert names(tmp_path) == ["inside"]


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (FLAGS, b"\x01", "is refused: 'a.en' is encrypted"),
        (PACKED_SIZE, b"\xff\xff\xff\x00", "is refused: it has members that overlap"),
        (SIZE, b"\xff\xff\xff\x7f", "is refused: it has .* bytes unpacked, more than 100 times"),
        (SIZE, b"\x09", "cannot be unpacked: a.en is shorter than it says"),
        (SIZE, b"\x07", "cannot be unpacked: Bad CRC-32"),
        (CHECKSUM, b"\x00\x00\x00\x00", "cannot be unpacked: Bad CRC-32"),
        (46, b"b.en", "is refused: it has two members of the same name"),
    ],
)
def test_a_zip_whose_list_lies_leaves_nothing(
    tmp_path: Path, at: int, value: bytes, message: str
) -> None:
    archive = write_zip(tmp_path / "lies.zip", ("b.en", b"eins\n"), ("a.en", b"one\ntwo\n"))
    alter(archive, "a.en", at, value)
    targets = {name: tmp_path / name for name in ("a.en", "b.en")}
    with pytest.raises(RejectedFileError, match=message):
        unpack(archive, targets, report=silent)
    assert names(tmp_path) == ["lies.zip"]


def test_no_more_of_a_zip_is_written_than_it_declares(tmp_path: Path) -> None:
    """A member that goes on, with the checksum of its start."""
    archive = write_zip(tmp_path / "long.zip", ("a.en", b"one\n" * 1_000))
    alter(archive, "a.en", SIZE, (8).to_bytes(4, "little"))
    alter(archive, "a.en", CHECKSUM, zlib.crc32(b"one\n" * 2).to_bytes(4, "little"))
    unpack(archive, {"a.en": tmp_path / "a.en"}, report=silent)
    assert (tmp_path / "a.en").read_bytes() == b"one\n" * 2


def test_a_zip_bomb_is_refused(tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "bomb.zip", ("a.en", b"one\n"), ("b.en", bytes(8 << 20)))
    with pytest.raises(RejectedFileError, match=r"8,388,612 bytes unpacked, more than 100 times"):
        unpack(archive, {"a.en": tmp_path / "a.en"}, report=silent)
    assert names(tmp_path) == ["bomb.zip"]


ZEROS = bytes(8 << 20)


def sparse_tar(path: Path) -> Path:
    """A member of a block that says it has 8 MiB, of which all but the block are holes."""
    info = member("a.en", type=tarfile.GNUTYPE_SPARSE, size=512)
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    for at, number in ((386, 0), (398, 512), (483, len(ZEROS))):  # offset, bytes there, size
        header[at : at + 12] = b"%011o\0" % number
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    path.write_bytes(bytes(header) + b"x" * 512 + bytes(1024))
    return path


@pytest.mark.parametrize(
    ("make", "wanted", "message"),
    [
        (lambda to: write_tar(to / "x.tgz", WANTED, (member("b"), ZEROS)), "train/a.en", "it has"),
        (
            lambda to: write_tar(to / "x.tgz", (member("a.gz"), gzip.compress(ZEROS))),
            "a.gz",
            "it has",
        ),
        (
            lambda to: write_zip(to / "x.zip", ("a.gz", gzip.compress(ZEROS))),
            "a.gz",
            "it has",
        ),
        (lambda to: sparse_tar(to / "x.tar"), "a.en", "it has 8,388,608 bytes unpacked, more than"),
        (lambda to: gzipped(to / "x.gz", ZEROS), "x.gz", "it has"),
        (
            lambda to: gzipped(to / "x.tgz", tar_bytes(WANTED) + ZEROS),
            "train/a.en",
            "what follows its last member is too long",
        ),
    ],
    ids=["member", "packed twice", "packed twice in a zip", "sparse", "gzip", "after the end"],
)
def test_what_is_unpacked_is_limited_by_the_size_of_the_archive(
    make: Callable[[Path], Path], wanted: str, message: str, tmp_path: Path
) -> None:
    archive = make(tmp_path)
    with pytest.raises(RejectedFileError, match=message):
        unpack(archive, {wanted: tmp_path / "a.en"}, report=silent)
    assert names(tmp_path) == [archive.name]


def test_a_tar_may_end_with_a_long_record_of_zeros(tmp_path: Path) -> None:
    archive = gzipped(tmp_path / "x.tgz", tar_bytes(WANTED) + bytes(1 << 20))
    unpack(archive, {"train/a.en": tmp_path / "a.en"}, report=silent)
    assert (tmp_path / "a.en").read_bytes() == WANTED[1]


def test_a_long_list_of_members_is_not_read(tmp_path: Path) -> None:
    many = ((f"{number}{'x' * 60_000}", b"") for number in range(20))
    archive = write_zip(tmp_path / "many.zip", *many, ("a.en", b"one\n"))
    with pytest.raises(RejectedFileError, match="its list of members is too long"):
        unpack(archive, {"a.en": tmp_path / "a.en"}, report=silent)


def test_only_wanted_members_of_a_zip_are_taken_out(tmp_path: Path) -> None:
    contents = {"README": b"", "C.de-en.en": b"one\n", "C.de-en.de": b"eins\n", "C.ids": b"1\n"}
    archive = write_zip(tmp_path / "all.zip", *contents.items())
    wanted = {name: tmp_path / name[-2:] for name in ("C.de-en.de", "C.de-en.en")}
    sums = unpack(archive, wanted, report=silent)
    assert names(tmp_path) == ["all.zip", "de", "en"]
    for name, path in wanted.items():
        assert path.read_bytes() == contents[name]
        assert f"sha256:{sums[path]}" == sha256(contents[name])
    with pytest.raises(RejectedFileError, match=r"all\.zip has no member 'C\.de-en\.fr'"):
        unpack(archive, {"C.de-en.fr": tmp_path / "fr"}, report=silent)


def test_memory_stays_small_whatever_the_archive_holds(tmp_path: Path) -> None:
    large = Random(1).randbytes(1 << 20) * 32  # noqa: S311 - not a secret
    info = member("large.en.gz")
    archive = write_tar(tmp_path / "large.tgz", (info, gzip.compress(large, 1)))
    tracemalloc.start()
    try:
        unpack(archive, {"large.en.gz": tmp_path / "large.en"}, report=silent)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (tmp_path / "large.en").stat().st_size == len(large)
    assert peak < len(large) / 4


@pytest.mark.parametrize("suffix", [".tar", ".tgz", ".tar.gz"])
def test_only_wanted_members_are_taken_out(tmp_path: Path, suffix: str) -> None:
    archive = write_tar(
        tmp_path / f"all{suffix}",
        (member("train", type=tarfile.DIRTYPE), b""),
        (member("train/other.fr"), b"trois\n"),
        (member("train/alias", type=tarfile.SYMTYPE, linkname="../train/a.en"), b""),
        WANTED,
        (member("./b.en.gz"), gzip.compress(b"three\n")),
    )
    targets = {"train/a.en": tmp_path / "a.en", "b.en.gz": tmp_path / "b.en"}
    sums = unpack(archive, targets, report=silent)
    assert (tmp_path / "a.en").read_bytes() == WANTED[1]
    assert (tmp_path / "b.en").read_bytes() == b"three\n"
    assert names(tmp_path) == sorted(["a.en", archive.name, "b.en"])
    assert {path: f"sha256:{sum_}" for path, sum_ in sums.items()} == {
        tmp_path / "a.en": sha256(WANTED[1]),
        tmp_path / "b.en": sha256(b"three\n"),
    }


TEXT = "".join(f"sentence {i * i}\n" for i in range(200)).encode()


@given(data=st.data())
@pytest.mark.parametrize("suffix", [".tgz", ".gz", ".zip"])
def test_a_damaged_archive_gives_the_right_text_or_none(suffix: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        archive, target = Path(name) / f"text.en{suffix}", Path(name) / "text.en"
        if suffix == ".gz":
            archive.write_bytes(gzip.compress(TEXT))
        elif suffix == ".zip":
            write_zip(archive, ("text.en", TEXT), ("other", TEXT))
        else:
            write_tar(archive, (member("text.en"), TEXT))
        content = bytearray(archive.read_bytes())
        at = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            del content[at:]
        else:
            content[at] ^= 1 << data.draw(st.integers(0, 7))
        archive.write_bytes(content)
        wanted = archive.name if suffix == ".gz" else "text.en"
        try:
            unpack(archive, {wanted: target}, report=silent)
        except RejectedFileError:
            assert names(Path(name)) == [archive.name]
        else:
            assert target.read_bytes() == TEXT


def test_a_kill_while_unpacking_leaves_nothing_that_looks_complete(tmp_path: Path) -> None:
    write_tar(tmp_path / "two.tgz", WANTED, (member("train/a.de"), b"eins\nzwei\n"))
    program = """
import os, signal
from pathlib import Path
from transduce.data.public.unpack import unpack
def report(progress):
    if progress.action == "unpack":
        os.kill(os.getpid(), signal.SIGKILL)
unpack(Path("two.tgz"), {f"train/a.{x}": Path(f"a.{x}") for x in ("en", "de")}, report=report)
"""
    killed = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False)
    assert killed.returncode == -signal.SIGKILL
    [leftover, archive] = names(tmp_path)
    assert re.fullmatch(r"a\.en\.[0-9a-f]{16}\.making", leftover)
    targets = {f"train/a.{x}": tmp_path / f"a.{x}" for x in ("en", "de")}
    unpack(tmp_path / archive, targets, report=silent)
    assert names(tmp_path) == ["a.de", "a.en", "two.tgz"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_a_disk_that_fills_while_unpacking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = write_tar(tmp_path / "two.tgz", (member("train/a.de"), b"eins\n"), WANTED)
    targets = {f"train/a.{x}": tmp_path / f"a.{x}" for x in ("en", "de")}
    opened = Path.open

    def on_a_full_disk(path: Path, mode: str) -> IO[bytes]:
        is_full = re.fullmatch(r"a\.en\..*\.making", path.name)
        return cast(IO[bytes], opened(Path("/dev/full") if is_full else path, mode))

    monkeypatch.setattr(Path, "open", on_a_full_disk)
    with pytest.raises(InputError, match=r"cannot write .*a\.en: No space left on device; free"):
        unpack(archive, targets, report=silent)
    assert names(tmp_path) == ["two.tgz"]


def test_of_a_member_that_is_there_twice_the_last_one_counts(tmp_path: Path) -> None:
    archive = write_tar(
        tmp_path / "twice.tgz", (member("train/a.en"), b"first, and longer\n"), WANTED
    )
    sums = unpack(archive, {"train/a.en": tmp_path / "a.en"}, report=silent)
    assert (tmp_path / "a.en").read_bytes() == WANTED[1]
    assert [f"sha256:{found}" for found in sums.values()] == [sha256(WANTED[1])]


class InPieces(io.BytesIO):
    """Ends its lines anywhere, as a long line is cut."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self._piece = size

    def readline(self, _size: int | None = -1, /) -> bytes:
        return super().read(self._piece)


@pytest.mark.parametrize("size", range(1, 30))
def test_segments_survive_a_cut_anywhere(size: int) -> None:
    sgml = '<doc><seg id="1">é</seg> and <SEG>naïve ü</SEG>\n</doc>'.encode()
    assert list(segments(InPieces(sgml, size))) == ["é", "naïve ü"]


def test_segments_become_lines() -> None:
    sgml = """<srcset setid="newstest2014" srclang="any">
<doc sysid="ref" docid="1" genre="news" origlang="de">
<hl>
<seg id="1">AT&amp;T &quot;R&notes&quot; &lt;b&gt; &#233;&#xe9;</seg>
</hl><p>
<seg id="2"> one </seg><seg id="3">a
  b</seg>
<SEG id="4">\u00ab\u00a0oui\u00a0\u00bb\u00a0</SEG>
<seg id="5"></seg>
</p></doc></srcset>
"""
    assert list(segments(io.BytesIO(sgml.encode()))) == [
        'AT&T "R&notes" <b> éé',
        "one",
        "a b",
        "\u00ab\u00a0oui\u00a0\u00bb\u00a0",
        "",
    ]


@pytest.mark.parametrize(
    "sgml",
    [
        b"",
        b"<html>not here</html>",
        b"<seg>never\n",
        b"<seg>" + Random(1).randbytes(1 << 17).hex().encode(),  # noqa: S311 - not a secret
        b"\xff",
    ],
)
def test_sgml_without_whole_segments_is_an_error(sgml: bytes, tmp_path: Path) -> None:
    archive = write_tar(tmp_path / "test.tgz", (member("test.en.sgm"), sgml))
    with pytest.raises(RejectedFileError, match=r"test\.tgz cannot be unpacked"):
        unpack(archive, {"test.en.sgm": tmp_path / "test.en"}, report=silent)
    assert names(tmp_path) == ["test.tgz"]
