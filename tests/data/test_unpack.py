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
from pathlib import Path
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


WANTED = (member("train/a.en"), b"one\ntwo\n")


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


def test_memory_stays_small_whatever_the_archive_holds(tmp_path: Path) -> None:
    large = bytes(32 << 20)
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
@pytest.mark.parametrize("suffix", [".tgz", ".gz"])
def test_a_damaged_archive_gives_the_right_text_or_none(suffix: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        archive, target = Path(name) / f"text.en{suffix}", Path(name) / "text.en"
        if suffix == ".gz":
            archive.write_bytes(gzip.compress(TEXT))
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
    "sgml", [b"", b"<html>not here</html>", b"<seg>never\n", b"<seg>" + b"x" * (1 << 18), b"\xff"]
)
def test_sgml_without_whole_segments_is_an_error(sgml: bytes, tmp_path: Path) -> None:
    archive = write_tar(tmp_path / "test.tgz", (member("test.en.sgm"), sgml))
    with pytest.raises(RejectedFileError, match=r"test\.tgz cannot be unpacked"):
        unpack(archive, {"test.en.sgm": tmp_path / "test.en"}, report=silent)
    assert names(tmp_path) == ["test.tgz"]
