"""A file or folder is complete or absent, whatever fails, is killed or happens at once."""

import fcntl
import os
import re
import secrets
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from transduce.files.atomic import atomic_file, atomic_folder, exclusive_file
from transduce.files.locks import locked

KILLED = """
import os, signal, sys
from pathlib import Path
from transduce.files.atomic import atomic_file, atomic_folder

path = Path(sys.argv[2])
if sys.argv[1] == "file":
    with atomic_file(path) as making:
        making.write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)
else:
    with atomic_folder(path) as making:
        (making / "part").write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write(path: Path, text: str) -> None:
    with atomic_file(path) as making:
        making.write_text(text)


def write_folder(folder: Path, text: str) -> None:
    with atomic_folder(folder) as making:
        (making / "part").write_text(text)


def kill_while_writing(kind: str, path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, kind, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL


def test_a_file_is_replaced_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path, "old")
    with atomic_file(path) as making:
        making.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert names(tmp_path) == ["file"]


def test_a_file_is_on_the_disk_before_it_has_its_name_and_then_its_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[int, int | None, list[str]]] = []

    def sync(descriptor: int) -> None:
        state = os.fstat(descriptor)
        size = None if stat.S_ISDIR(state.st_mode) else state.st_size
        synced.append((state.st_ino, size, sorted({"file", "folder"} & {*names(tmp_path)})))

    monkeypatch.setattr("os.fsync", sync)
    here = tmp_path.stat().st_ino
    write(tmp_path / "file", "new")
    assert synced == [((tmp_path / "file").stat().st_ino, 3, []), (here, None, ["file"])]
    synced.clear()
    write_folder(tmp_path / "folder", "new")
    made = (tmp_path / "folder").stat().st_ino
    assert synced == [(made, None, ["file"]), (here, None, ["file", "folder"])]


def test_whoever_reads_the_old_file_reads_it_to_its_end(tmp_path: Path) -> None:
    """A new file takes its name; the old one is never written to."""
    path = tmp_path / "file"
    write(path, "the old content")
    (tmp_path / "same").hardlink_to(path)
    with path.open() as reader:
        with atomic_file(path) as making:
            making.write_text("new")
            written = making.stat().st_ino
        assert reader.read() == "the old content"
    assert (tmp_path / "same").read_text() == "the old content"
    assert path.stat().st_ino == written, "renamed, not copied: a copy can be cut short"


def test_if_writing_fails_the_old_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path, "old")

    def fail() -> None:
        with atomic_file(path) as making:
            making.write_text("half")
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        fail()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("name", ["file", "fi[l]e*"])
def test_the_next_writer_removes_the_file_of_a_killed_process(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    kill_while_writing("file", path)
    [leftover] = names(tmp_path)
    assert leftover != name
    write(path, "new")
    assert names(tmp_path) == [name]
    assert path.read_text() == "new"


@pytest.mark.parametrize("name", ["folder", "fold[e]r*"])
def test_the_next_writer_removes_the_folder_of_a_killed_process(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    kill_while_writing("folder", folder)
    [leftover] = names(tmp_path)
    assert leftover != name
    write_folder(folder, "new")
    assert names(tmp_path) == [name]
    assert (folder / "part").read_text() == "new"


def test_the_fixed_name_of_earlier_versions_is_removed_too(tmp_path: Path) -> None:
    (tmp_path / "file.making").write_text("half")
    write(tmp_path / "file", "new")
    assert names(tmp_path) == ["file"]


def test_files_of_other_names_are_not_taken_for_leftovers(tmp_path: Path) -> None:
    others = ["file.txt.making", "file.0123.making", "other.0123456789abcdef.making", "file.part"]
    for name in others:
        (tmp_path / name).write_text("mine")
    write(tmp_path / "file", "new")
    assert names(tmp_path) == sorted(["file", *others])


def test_two_writers_of_one_file_do_not_share_a_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with atomic_file(path) as first:
        first.write_text("first")
        with atomic_file(path) as second:
            second.write_text("second")
        assert path.read_text() == "second"
        assert first.read_text() == "first", "it is still being written, so it is no leftover"
    assert path.read_text() == "first"
    assert names(tmp_path) == ["file"]


def test_of_two_writers_of_one_folder_the_first_to_finish_wins(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with atomic_folder(folder) as first:
        (first / "part").write_text("first")
        write_folder(folder, "second")
    assert (folder / "part").read_text() == "second"
    assert names(tmp_path) == ["folder"]


def test_a_temporary_name_cannot_be_guessed(tmp_path: Path) -> None:
    found = []
    for _ in range(3):
        with atomic_file(tmp_path / "file") as making:
            found.append(making.name)
    assert len(set(found)) == 3
    assert all(re.fullmatch(r"file\.[0-9a-f]{16}\.making", name) for name in found)


def test_a_link_in_place_of_the_temporary_file_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr(secrets, "token_hex", lambda _bytes: "0" * 16)
    (tmp_path / f"file.{'0' * 16}.making").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write(tmp_path / "file", "new")
    assert victim.read_text() == "precious"


def test_a_file_removed_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer may take a file for a leftover in the moment before it is locked."""
    flock, tokens = fcntl.flock, iter(["0" * 16, "1" * 16])
    monkeypatch.setattr(secrets, "token_hex", lambda _bytes: next(tokens))

    def removed_meanwhile(descriptor: int, operation: int) -> None:
        (tmp_path / f"file.{'0' * 16}.making").unlink(missing_ok=True)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", removed_meanwhile)
    with atomic_file(tmp_path / "file") as making:
        assert making.name == f"file.{'1' * 16}.making"
        making.write_text("new")
    assert names(tmp_path) == ["file"]


def test_a_file_system_without_locks_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_descriptor: int, _operation: int) -> None:
        raise OSError(os.strerror(95))

    monkeypatch.setattr(fcntl, "flock", refused)
    (tmp_path / "file.making").write_text("half")
    write(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "new"


def test_a_file_has_the_permissions_that_the_umask_gives(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path / "file", "new")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path):
        with pytest.raises(BlockingIOError), locked(tmp_path, wait=False):
            pass
        with locked(tmp_path.parent, wait=False):
            pass
    with locked(tmp_path, wait=False):
        pass


def test_a_folder_that_others_keep_locked_is_written_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with locked(tmp_path), exclusive_file(path) as making:
        making.write_text("done")
    assert path.read_text() == "done"
