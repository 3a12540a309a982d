"""A digest follows a file's content, and is computed once for as long as the file stays."""

import bz2
import gzip
import json
import lzma
import os
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

import pytest

from transduce.data.corpus import read_lines
from transduce.errors import InputError
from transduce.files import digests
from transduce.files.digests import Digests, JsonMemory
from transduce.files.unchanged import ChangedFileError, unchanged_files

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": lambda content: gzip.compress(content, mtime=0),
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
}


def expected(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def test_a_digest_is_computed_once_for_as_long_as_the_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "SETTLED_NS", 0)
    path = tmp_path / "text"
    path.write_bytes(b"one")
    assert Digests(tmp_path / "cache").of(path) == expected(b"one")
    with monkeypatch.context() as patched:
        patched.delattr(digests, "file_digest")
        assert Digests(tmp_path / "cache").of(path) == expected(b"one")
    path.write_bytes(b"two")
    os.utime(path, ns=(0, 0))
    assert Digests(tmp_path / "cache").of(path) == expected(b"two")


def test_a_change_that_hides_its_time_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "SETTLED_NS", 0)
    path = tmp_path / "text"
    path.write_bytes(b"one")
    before = path.stat()
    Digests(tmp_path / "cache").of(path)
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # the clock ticks a few times a second
        path.write_bytes(b"two")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert Digests(tmp_path / "cache").of(path) == expected(b"two")


def test_a_file_that_was_just_written_is_digested_again(tmp_path: Path) -> None:
    """Within one tick of the clock, two writes have the same time."""
    path = tmp_path / "text"
    path.write_bytes(b"one")
    Digests(tmp_path / "cache").of(path)
    assert not (tmp_path / "cache" / "digests.json").exists()


@pytest.mark.parametrize("suffix", PACKED)
def test_what_was_read_is_what_is_digested(suffix: str, tmp_path: Path) -> None:
    pack = PACKED[suffix]
    path = tmp_path / f"text{suffix}"
    path.write_bytes(pack(b"one\n"))
    with unchanged_files():
        assert list(read_lines(path)) == ["one"]
        path.write_bytes(pack(b"two\n"))
        assert Digests(tmp_path / "cache").of(path) == expected(pack(b"one\n"))
        with pytest.raises(ChangedFileError, match=r"/text.* was changed while it was read: run"):
            list(read_lines(path))
    assert list(read_lines(path)) == ["two"], "outside it is a file like any other"
    assert Digests(tmp_path / "cache").of(path) == expected(pack(b"two\n"))


def test_a_file_that_is_not_read_to_its_end_is_not_compared(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"one\n")
    with unchanged_files() as known:
        assert next(iter(read_lines(path))) == "one"
        assert known.of(path) is None


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^cannot read .*/none: No such file or directory$"):
        Digests(tmp_path / "cache").of(tmp_path / "none")
    assert not (tmp_path / "cache").exists()


def test_entries_are_added_to_those_before(tmp_path: Path) -> None:
    memory = JsonMemory(tmp_path / "folder" / "memory.json")
    memory.remember({"a": 1, "b": 2})
    memory.remember({"b": 3})
    assert memory.recall() == {"a": 1, "b": 3}
    assert json.loads((tmp_path / "folder" / "memory.json").read_text()) == memory.recall()
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["memory.json"]


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_a_damaged_memory_is_empty_and_can_be_added_to(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    path.write_bytes(content)
    assert JsonMemory(path).recall() == {}
    JsonMemory(path).remember({"a": 1})
    assert JsonMemory(path).recall() == {"a": 1}


def test_a_memory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "memory.json"
    with pytest.raises(InputError, match=r"^cannot write .*/file/memory\.json: (Not a|File ex)"):
        JsonMemory(path).remember({"a": 1})
