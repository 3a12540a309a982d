"""Parallel text is read unchanged, and errors name file, line and byte."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from transduce.data.corpus import (
    JsonLines,
    Pair,
    Source,
    Tsv,
    TwoFiles,
    count_pairs,
    read_lines,
    read_pairs,
)
from transduce.data.formats import lines as file_lines
from transduce.errors import InputError

# A line is any text without LF that does not end in CR, even if it looks like a line break.
lines = st.lists(
    st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])).filter(
        lambda line: not line.endswith("\r")
    )
    | st.sampled_from(["", "a\u2028b", "\x00", "a\x0bb\x0cc\x85d", "\rx", "\u2029"]),
    min_size=1,
    max_size=30,
)
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.compress,
}


@given(
    written=lines,
    end=st.sampled_from(["\n", "\r\n"]),
    mark=st.sampled_from(["", "\ufeff"]),
    suffix=st.sampled_from(list(PACKERS)),
    ended=st.booleans(),
)
def test_lines_come_back_whatever_is_in_them(
    tmp_path_factory: pytest.TempPathFactory,
    written: list[str],
    end: str,
    mark: str,
    suffix: str,
    ended: bool,
) -> None:
    path = tmp_path_factory.mktemp("corpus") / f"text{suffix}"
    last = (
        end if ended or not written[-1] else ""
    )  # an empty last line shows only by its line break
    first = written[0].removeprefix("\ufeff") if not mark else written[0]
    expected = [first, *written[1:]]
    path.write_bytes(PACKERS[suffix]((mark + end.join(written) + last).encode()))
    assert list(read_lines(path)) == expected


@given(src=lines, tgt=lines)
def test_pairs_stay_aligned(
    tmp_path_factory: pytest.TempPathFactory, src: list[str], tgt: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("corpus")
    count = min(len(src), len(tgt))
    pairs = [Pair(f"s{a}", f"t{b}") for a, b in zip(src[:count], tgt[:count], strict=True)]
    (folder / "a").write_bytes("".join(f"{pair.src}\n" for pair in pairs).encode())
    (folder / "b").write_bytes("".join(f"{pair.tgt}\n" for pair in pairs).encode())
    source = TwoFiles(folder / "a", folder / "b")
    assert count_pairs(source) == count
    assert list(read_pairs(source)) == pairs
    entries = [json.dumps({"en": pair.src, "de": pair.tgt, "n": 1}) for pair in pairs]
    (folder / "c.jsonl").write_text("\n".join(entries), encoding="utf-8")
    on_one_line = [Pair(*(text.replace("\r", " ") for text in pair)) for pair in pairs]
    assert list(read_pairs(JsonLines(folder / "c.jsonl", src="en", tgt="de"))) == on_one_line


@given(written=lines, mark=st.sampled_from(["", "\ufeff"]), block=st.integers(1, 64))
def test_blocks_of_any_size_make_no_difference(
    tmp_path_factory: pytest.TempPathFactory, written: list[str], mark: str, block: int
) -> None:
    path = tmp_path_factory.mktemp("corpus") / "text"
    path.write_bytes((mark + "".join(f"{line}\n" for line in written) + "last").encode())
    whole = list(read_lines(path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_lines, "BLOCK_BYTES", block)
        assert list(read_lines(path)) == whole
        path.write_bytes(path.read_bytes() + b"\n\xff\n")
        with pytest.raises(InputError, match=f"line {len(whole) + 1:,} byte 1: not UTF-8"):
            list(read_lines(path))


def test_lines_are_whole_across_blocks(tmp_path: Path) -> None:
    written = [f"{n} " + "ä" * (n % 7000) for n in range(3000)]
    path = tmp_path / "long"
    path.write_text("\n".join(written), encoding="utf-8")
    assert path.stat().st_size > 3 * 2**20
    assert list(read_lines(path)) == written


def test_a_zst_of_several_frames_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "text.zst"
    frames = [f"{n}\n".encode() * 1000 for n in range(5)]
    path.write_bytes(b"".join(zstandard.compress(frame) for frame in frames))
    assert list(read_lines(path)) == b"".join(frames).decode().splitlines()


def test_a_tsv_has_two_columns(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a b\tc\nd\t\n", encoding="utf-8")
    assert list(read_pairs(Tsv(path))) == [("a b", "c"), ("d", "")]


def refused(source: Source) -> str:
    with pytest.raises(InputError) as raised:
        count_pairs(source)
    message = str(raised.value)
    assert "\n" not in message
    return message


def two_files(folder: Path, src: bytes, tgt: bytes) -> TwoFiles:
    (folder / "train.en").write_bytes(src)
    (folder / "train.de").write_bytes(tgt)
    return TwoFiles(folder / "train.en", folder / "train.de")


def test_files_of_different_length_are_refused(tmp_path: Path) -> None:
    message = refused(two_files(tmp_path, b"a\nb\n", b"c\n"))
    assert f"train.de has 1 line but {tmp_path}/train.en has 2: parallel files must" in message


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    assert refused(two_files(tmp_path, b"", b"c\n")).endswith("train.en is empty")


@given(before=st.integers(0, 50), column=st.integers(0, 50))
def test_broken_utf_8_is_named_by_line_and_byte(
    tmp_path_factory: pytest.TempPathFactory, before: int, column: int
) -> None:
    broken = "ä\n".encode() * before + b"x" * column + b"\xff\n" + b"fine\n"
    source = two_files(tmp_path_factory.mktemp("corpus"), broken, b"c\n")
    assert f"train.en line {before + 1} byte {column + 1}: not UTF-8" in refused(source)


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2", ".zst"])
def test_a_truncated_or_false_archive_is_refused(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"text{suffix}"
    path.write_bytes(PACKERS[suffix](b"line\n" * 10_000)[:-20])
    assert "text" in refused(Tsv(path))
    assert "damaged or truncated" in refused(TwoFiles(path, path))
    path.write_bytes(b"no archive at all\n")
    assert str(path) in refused(TwoFiles(path, path))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not JSON"),
        ("3", "line 2: not an object with fields"),
        ('{"en": "a"}', "line 2: no text in field 'de'; the fields are ['en']"),
        ('{"en": "a", "de": 3}', "line 2: no text in field 'de'"),
        ("[" * 100_000, "line 2: not JSON"),
        ('{"en": "a", "de": "\\ud800"}', "line 2: field 'de' has half of a surrogate pair"),
    ],
)
def test_a_broken_json_line_is_named(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"en": "a", "de": "b"}\n' + line, encoding="utf-8")
    assert message in refused(JsonLines(path, src="en", tgt="de"))


@pytest.mark.parametrize(("line", "count"), [("only one", "1 column"), ("a\tb\tc", "3 columns")])
def test_a_tsv_line_without_two_columns_is_named(line: str, count: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(f"a\tb\n{line}\n", encoding="utf-8")
    assert f"line 2: {count} instead of two, separated by a tab" in refused(Tsv(path))


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "binary"
    with path.open("wb") as stream:
        stream.truncate(1 << 26)
    assert "has a line of over 16,777,216 bytes: is it text?" in refused(TwoFiles(path, path))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert "No such file" in refused(Tsv(tmp_path / "none"))
