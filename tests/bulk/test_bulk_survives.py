"""`translate --out DIR/` that is stopped at any moment ends with the same bytes."""

import fcntl
import gzip
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import transduce
from tests.command import Command, KillAt, start
from tests.translation.likely import random_model, saved
from transduce.bulk.manifest import MANIFEST
from transduce.cli.app import app
from transduce.files.checksums import RECORD_CHECKSUM, with_checksum
from transduce.translation.torch_engine import TorchEngine

SHARDS = ("--beam", "1", "--window", "4", "--shard-lines", "8")


def whole(folder: Path) -> bytes:
    return b"".join(part.read_bytes() for part in sorted(folder.glob("part-*")))


@cache
def written(model: Path, text: bytes, *options: str) -> dict[str, bytes]:
    """Translate a text once for all tests, and return the files that this writes."""
    with tempfile.TemporaryDirectory() as place:
        given, folder = Path(place, "a.en"), Path(place, "parts")
        given.write_bytes(text)
        words = ["translate", str(model), str(given), *options, "--out", str(folder)]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        paths = [folder] if folder.is_file() else folder.iterdir()
        return {path.name: path.read_bytes() for path in paths}


@pytest.fixture
def expected(model: Path, text: Path) -> bytes:
    [content] = written(model, text.read_bytes(), *SHARDS[:4]).values()
    return content


@dataclass(frozen=True)
class KillAtTouch(KillAt):
    """The moment before the process touches something in a folder for the nth time."""

    nth: int = 1

    def watch(self) -> None:
        """Have this process kill itself at that moment."""
        touches: list[str] = []

        def kill(event: str, arguments: tuple[object, ...]) -> None:
            is_file_event = event == "open" or event.startswith("os.")
            if is_file_event and arguments and re.search(self.pattern, str(arguments[0])):
                touches.append(event)
                if len(touches) == self.nth:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(kill)


MAKING = r"part-00000001\.txt\.[0-9a-f]+\.making"
MOMENTS = [1, 2, 4, 6, 9, 11, 13, 16, 19, 23]
"""Touches of the folder: from the first to those of the last of three parts."""


def kill_and_continue(moment: KillAt, model: Path, text: Path, command: Command) -> str:
    folder = text.with_name("parts")
    arguments = ("translate", model, text, *SHARDS, "--out", folder)
    killed = start(*arguments, log=text.with_name("log"), kill_at=moment)
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    again = command(*arguments)
    assert again.code == 0, again.err
    found = {path.name for path in folder.iterdir()}
    assert found == {MANIFEST, *(f"part-0000000{n}.txt" for n in range(3))}
    return again.err


@pytest.mark.parametrize("event", ["open", "os.rename"])
def test_killed_while_a_part_is_written(
    event: Any, model: Path, text: Path, command: Command, expected: bytes
) -> None:
    told = kill_and_continue(KillAt(event, MAKING), model, text, command)
    assert "8 of 22 lines were translated before: going on from there" in told
    assert whole(text.with_name("parts")) == expected


@pytest.mark.exhaustive
@pytest.mark.parametrize("nth", MOMENTS)
def test_killed_at_many_moments(
    nth: int, model: Path, text: Path, command: Command, expected: bytes
) -> None:
    kill_and_continue(KillAtTouch("open", "parts(/|$)", nth), model, text, command)
    assert whole(text.with_name("parts")) == expected


def test_a_part_that_is_recorded_is_on_the_disk(
    model: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests leave out to wait for the disk; here is that commands ask for it, in this order."""
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    folder = text.with_name("parts")
    words = ["translate", str(model), str(text), *SHARDS, "--out", str(folder)]
    assert CliRunner().invoke(app, words).exit_code == 0
    found = {path.stat().st_ino: path.name for path in (folder, *folder.iterdir())}
    order = [found[number] for number in synced if number in found]
    parts = sorted(path.name for path in folder.glob("part-*"))
    wanted = [name for part in parts for name in (part, "parts", MANIFEST)]
    start = order.index(parts[0])
    assert order[start:] == [*wanted, MANIFEST]
    assert MANIFEST in order[:start]


def finished(model: Path, text: Path) -> Path:
    folder = text.with_name("parts")
    folder.mkdir()
    for name, content in written(model, text.read_bytes(), *SHARDS).items():
        (folder / name).write_bytes(content)
    return folder


def stopped_after(parts: int, folder: Path) -> None:
    """Leave what a process has written that was killed between two parts."""
    lines = (folder / MANIFEST).read_bytes().splitlines(keepends=True)
    (folder / MANIFEST).write_bytes(b"".join(lines[: 1 + parts]))
    for part in sorted(folder.glob("part-*"))[parts:]:
        part.unlink()


def test_a_manifest_cut_at_any_byte_is_continued(
    model: Path, text: Path, command: Command, expected: bytes
) -> None:
    """Its last record may be torn; a part without a record is written again."""
    folder = finished(model, text)
    content = (folder / MANIFEST).read_bytes()
    header = content.index(b"\n") + 1
    for cut in (0, 10, header - 1, header, header + 9, len(content) - 3):
        (folder / MANIFEST).write_bytes(content[:cut])
        if cut < header:  # the first record is on the disk before any part is
            for part in folder.glob("part-*"):
                part.unlink()
        again = command("translate", model, text, *SHARDS, "--out", folder)
        assert again.code == 0, again.err
        assert (folder / MANIFEST).read_bytes() == content
        assert whole(folder) == expected


def test_a_part_that_is_removed_is_written_again(
    model: Path, text: Path, command: Command, expected: bytes
) -> None:
    folder = finished(model, text)
    (folder / "part-00000001.txt").unlink()
    again = command("translate", model, text, *SHARDS, "--out", folder)
    assert "14 of 22 lines were translated before: going on from there" in again.err
    assert "22 lines, 8 of them now, in 3 parts" in again.err
    assert whole(folder) == expected
    nothing = command("translate", model, text, *SHARDS, "--out", folder)
    assert "22 lines, 0 of them now, in 3 parts" in nothing.err


def test_what_is_not_given_again_stays_as_it_was(
    model: Path, text: Path, command: Command, expected: bytes
) -> None:
    folder = finished(model, text)
    stopped_after(1, folder)
    again = command("translate", model, text, "--beam", "1", "--out", folder)
    assert again.code == 0, again.err
    assert whole(folder) == expected


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ("input", "input "),
        ("model", "model "),
        (("--beam", "2"), "beam 1, not 2"),
        (("--jsonl",), "jsonl false, not true"),
        (("--shard-lines", "4"), "shard-lines 8, not 4"),
        (("--sample", "--seed", "3"), "sampling none, not {"),
        (("--keep-placeholders",), "wording none, not "),
        (("--memory", "memory.tsv"), "memory none, not {"),
    ],
)
def test_another_command_is_refused(
    change: Any, difference: str, model: Path, text: Path, command: Command
) -> None:
    copy = shutil.copytree(model, text.with_name("model"))
    folder = finished(model, text)
    stopped_after(2, folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    if change == "input":
        text.write_text(text.read_text(encoding="utf-8") + "More.\n", encoding="utf-8")
    elif change == "model":
        saved(copy, random_model(seed=6, max_positions=12))
    memory = text.with_name("memory.tsv")
    memory.write_text("A dog.\tEin Hund.\n", encoding="utf-8")
    words = () if isinstance(change, str) else change
    changed = [memory if word == memory.name else word for word in words]
    given = dict(zip(SHARDS[::2], SHARDS[1::2], strict=True))
    if changed[:1] and changed[0] in given:
        given.pop(changed[0])
    options = [word for option in given.items() for word in option]
    told = command("translate", copy, text, *options, *changed, "--out", folder).mistake()
    assert told.startswith(f"{folder} was begun with {difference}")
    assert told.endswith(
        "give the same command again to go on; to start over, remove "
        f"{folder} or choose another --out"
    )
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("option", "difference"),
    [
        ((), ""),
        (("--keep-placeholders",), "wording none, not "),
        (("--memory", "memory.tsv"), "memory none, not {"),
        (("--shortlist",), "shortlist false, not true"),
    ],
)
def test_a_folder_of_an_older_version_names_less(
    option: tuple[str, ...], difference: str, model: Path, text: Path, command: Command
) -> None:
    """What it does not name, it was begun without."""
    folder = finished(model, text)
    stopped_after(2, folder)
    records = (folder / MANIFEST).read_bytes().splitlines(keepends=True)
    first = json.loads(records[0])
    for name in ("wording", "memory", "shortlist"):
        del first["made_from"][name]
    old = json.dumps(with_checksum({"made_from": first["made_from"]})).encode() + b"\n"
    (folder / MANIFEST).write_bytes(b"".join([old, *records[1:]]))
    memory = text.with_name("memory.tsv")
    memory.write_text("src\ttgt\nA dog.\tEin Hund.\n", encoding="utf-8")
    if option == ("--shortlist",):
        model = shutil.copytree(model, text.with_name("model"))
        transduce.make_shortlist(model, src=[memory])
    changed = [memory if word == memory.name else word for word in option]
    again = command("translate", model, text, *SHARDS, *changed, "--out", folder)
    if difference:
        assert difference in again.mistake()
    else:
        assert "16 of 22 lines were translated before" in again.err


@pytest.mark.parametrize("lines", [7, 10**30])
def test_a_part_with_more_lines_than_the_text_has_left_is_refused(
    lines: int, model: Path, text: Path, command: Command
) -> None:
    """The text has 22 lines, and the last part those from the 17th on."""
    folder = finished(model, text)
    records = (folder / MANIFEST).read_bytes().splitlines(keepends=True)
    [last] = [at for at, record in enumerate(records) if json.loads(record).get("first") == 16]
    changed = {**json.loads(records[last]), "lines": lines}
    del changed[RECORD_CHECKSUM]
    records[last] = json.dumps(with_checksum(changed)).encode() + b"\n"
    (folder / MANIFEST).write_bytes(b"".join(records))
    again = command("translate", model, text, *SHARDS, "--out", folder)
    assert again.code == 2
    assert "part 2 begins or ends elsewhere" in again.err.splitlines()[-1]


def test_other_options_are_taken_where_no_part_is_done(
    model: Path, text: Path, command: Command
) -> None:
    folder = finished(model, text)
    stopped_after(0, folder)
    (folder / "part-00000007.txt").write_text("left by a process that was killed\n")
    assert command("translate", model, text, *SHARDS, "--jsonl", "--out", folder).code == 0
    assert sorted(path.suffix for path in folder.glob("part-*")) == [".jsonl"] * 3


def edit(line: int, record: Callable[[dict[str, Any]], Any]) -> Callable[[bytes], bytes]:
    def edited(content: bytes) -> bytes:
        lines = content.splitlines()
        lines[line] = json.dumps(record(json.loads(lines[line]))).encode()
        return b"\n".join(lines) + b"\n"

    return edited


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"\0" * len(content) + b"\n",
        lambda content: b"x" * 2**21 + content,
        lambda content: b"[" * 100_000 + b"\n" + content,
        lambda content: content[content.index(b"\n") + 1 :],
        edit(0, lambda record: record | {"made_from": {}}),
        edit(1, lambda record: record | {"lines": 9}),
        edit(2, lambda record: [record]),
        edit(2, lambda record: {k: v for k, v in record.items() if k != "checksum"}),
    ],
)
def test_a_broken_manifest_is_one_line(
    damage: Callable[[bytes], bytes], model: Path, text: Path, command: Command
) -> None:
    folder = finished(model, text)
    manifest = folder / MANIFEST
    manifest.write_bytes(damage(manifest.read_bytes()))
    told = command("translate", model, text, *SHARDS, "--out", folder).mistake()
    assert told.startswith(f"{manifest} is damaged (")
    assert told.endswith(
        "): to start over, remove it and the parts beside it, or choose another --out"
    )


def test_a_changed_part_is_one_line(model: Path, text: Path, command: Command) -> None:
    folder = finished(model, text)
    part = folder / "part-00000001.txt"
    part.write_bytes(part.read_bytes().swapcase())
    told = command("translate", model, text, *SHARDS, "--out", folder)
    assert told.code == 2
    assert told.err.splitlines()[-1] == (
        f"transduce: {part} is damaged (its checksum differs from that in manifest.jsonl): "
        "remove it: the same command writes it again"
    )


def test_a_full_disk_is_one_line_and_goes_on(model: Path, text: Path, command: Command) -> None:
    """A part with a byte too many does not appear; there is room again for the rest."""
    folder, log = text.with_name("parts"), text.with_name("log")
    arguments = ("translate", model, text, "--beam", "1", "--window", "4", "--jsonl", "--out")
    full = start(*arguments, folder, "--shard-lines", "22", log=log, max_file_bytes=4_000)
    full.join()
    told = log.read_text(encoding="utf-8").splitlines()[-1]
    assert told.startswith(f"transduce: cannot write {folder}/part-00000000.jsonl: File too large")
    assert full.exitcode == 2
    assert [path.name for path in folder.iterdir()] == [MANIFEST]
    assert command(*arguments, folder, "--shard-lines", "8").code == 0
    assert command(*arguments, text.with_name("whole")).code == 0
    assert whole(folder) == text.with_name("whole").read_bytes()


def test_ctrl_c_says_what_is_done(
    model: Path, text: Path, command: Command, expected: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = text.with_name("parts")
    searches: list[int] = []
    real = TorchEngine.search_with_retry

    def interrupted(self: TorchEngine, *arguments: Any) -> Any:
        searches.append(1)
        if len(searches) == 4:
            raise KeyboardInterrupt
        return real(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(TorchEngine, "search_with_retry", interrupted)
        stopped = command("translate", model, text, *SHARDS, "--out", folder)
    assert stopped.code == 130
    assert f"8 of 22 lines are in {folder}: the same command goes on\n" in stopped.err
    assert command("translate", model, text, *SHARDS, "--out", folder).code == 0
    assert whole(folder) == expected


def test_compressed_text_is_the_same_text(
    model: Path, text: Path, command: Command, expected: bytes
) -> None:
    packed = text.with_name("a.en.gz")
    packed.write_bytes(gzip.compress(text.read_bytes()))
    folder = text.with_name("parts")
    assert command("translate", model, packed, *SHARDS, "--out", f"{folder}/").code == 0
    assert whole(folder) == expected


def test_two_commands_do_not_write_one_folder(model: Path, text: Path, command: Command) -> None:
    folder = finished(model, text)
    with (folder / MANIFEST).open("r+b") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        told = command("translate", model, text, *SHARDS, "--out", folder).mistake()
    assert told == f"another command is writing {folder}: let it end"


def test_a_folder_with_other_files_is_left_alone(model: Path, text: Path, command: Command) -> None:
    told = command("translate", model, text, "--out", text.parent).mistake()
    assert told == (
        f"{text.parent} has other files (a.en): choose a new or an empty folder for --out"
    )
    assert [path.name for path in text.parent.iterdir()] == ["a.en"]


def test_a_manifest_of_someone_else_is_left_alone(
    model: Path, text: Path, command: Command
) -> None:
    mine = text.with_name(MANIFEST)
    mine.write_text('{"mine": 1}')
    told = command("translate", model, text, "--out", text.parent).mistake()
    assert told.startswith(f"{mine} is damaged (it is no manifest of parts): ")
    assert mine.read_text() == '{"mine": 1}'


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shard-lines", "4"], "--shard-lines 4: add --out DIR/, the folder for the parts"),
        (["--on", "ray"], "--on ray: add --out DIR/, a folder in which parts are written"),
        (["--shard-lines", "0", "--out", "x/"], "a shard of 0 lines: use 1 or more"),
        (["--draw", "a.svg", "--out", "x/"], "--draw a.svg: leave it out, or choose a file"),
        (["--format", "html", "--out", "x/"], "--format html: a document is one file, not parts"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    options: list[str], message: str, model: Path, text: Path, command: Command, tmp_path: Path
) -> None:
    told = command("translate", model, text, *options, folder=tmp_path).mistake()
    assert told.startswith(message)
    assert [path.name for path in tmp_path.iterdir()] == ["a.en"]


def test_standard_input_cannot_be_sharded(model: Path, command: Command, tmp_path: Path) -> None:
    told = command("translate", model, "--out", f"{tmp_path}/x/", given=b"A.\n").mistake()
    assert told.startswith("--out DIR/ is for files, which the same command can read again")
