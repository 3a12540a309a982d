"""A digest follows a file's content, and is computed once for as long as the file stays."""

import json
import os
from hashlib import blake2b
from pathlib import Path

import pytest

from transduce.errors import InputError
from transduce.files import digests
from transduce.files.digests import Digests, JsonMemory


def expected(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def test_a_digest_is_computed_once_for_as_long_as_the_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"one")
    assert Digests(tmp_path / "cache").of(path) == expected(b"one")
    with monkeypatch.context() as patched:
        patched.delattr(digests, "file_digest")
        assert Digests(tmp_path / "cache").of(path) == expected(b"one")
    path.write_bytes(b"two")
    os.utime(path, ns=(0, 0))
    assert Digests(tmp_path / "cache").of(path) == expected(b"two")


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


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff"])
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
