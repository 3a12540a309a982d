"""What a run notes about itself may be of any type, any depth, or no file: one line says so."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.command import Command
from tests.system.small_runs import stopped_run, training, write_corpus

DEEP = "[" * 100_000


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("place")
    write_corpus(place)
    return stopped_run(place, place / "run", after=6, run__checkpoint_steps=4).parent


@pytest.fixture
def run(place: Path, tmp_path: Path) -> Path:
    """A run with one checkpoint that can be resumed, without checksums."""
    run = shutil.copytree(place / "run", tmp_path / "run")
    for folder in sorted((run / "checkpoints").iterdir())[:-1]:
        shutil.rmtree(folder)
    [state] = run.glob("checkpoints/*/state.json")
    change(state, checksum=None)
    return run


def mistake_of_resuming(run: Path, place: Path, command: Command) -> str:
    """Resume, which must fail; return its last line, which is the only one about a mistake."""
    ended = command(*training(place, run, run__checkpoint_steps=4))
    assert ended.code == 2, ended.err
    *before, last = ended.err.splitlines()
    assert not [line for line in before if line.startswith(("transduce: ", "Traceback"))]
    return last.removeprefix("transduce: ")


def change(path: Path, **entries: Any) -> None:
    found = json.loads(path.read_text()) | entries
    if found.get("checksum", "") is None:
        del found["checksum"]
    path.write_text(json.dumps(found))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step", "7"),
        ("epoch", None),
        ("batches_done", 1.5),
        ("tokens", []),
        ("guard", ["x", 1.0]),
        ("guard", 5),
        ("packed", "no"),
        ("best", [1]),
        ("best", {"loss": {}, "metric": None}),
        ("best", {"loss": 1.0, "metric": {"name": 5, "score": 1.0, "signature": ""}}),
        ("max_tokens", {}),
    ],
)
def test_progress_of_another_type_is_one_line(
    name: str, value: Any, run: Path, place: Path, command: Command
) -> None:
    [state] = run.glob("checkpoints/*/state.json")
    progress = json.loads(state.read_text())["progress"] | {name: value}
    change(state, progress=progress)
    message = mistake_of_resuming(run, place, command)
    assert message.startswith(f"{state} is damaged (")


@pytest.mark.parametrize("name", ["state.json", "provenance.json"])
@pytest.mark.parametrize("content", ["[]", "5", "null", '"x"', DEEP, None])
def test_a_record_that_is_none_is_one_line(
    name: str, content: str | None, run: Path, place: Path, command: Command
) -> None:
    [path] = run.rglob(name)
    path.unlink()
    os.mkfifo(path) if content is None else path.write_text(content)
    message = mistake_of_resuming(run, place, command)
    assert message.startswith(f"{path} is damaged (")


def test_a_journal_that_is_a_fifo_is_not_waited_for(
    run: Path, place: Path, command: Command
) -> None:
    (run / "journal.jsonl").unlink()
    os.mkfifo(run / "journal.jsonl")
    assert "journal.jsonl" in mistake_of_resuming(run, place, command)
    assert "journal.jsonl" in command("runs", run).err


@pytest.mark.parametrize("content", ["[]", DEEP, '{"runs": 5}', '{"runs": [5]}', "{}"])
def test_a_damaged_plan_of_a_sweep_is_one_line(
    content: str, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "sweep.json").write_text(content)
    assert "sweep.json is damaged" in command("sweep", "--report", tmp_path).mistake()


def test_a_deep_config_of_another_format_is_one_line(tmp_path: Path, command: Command) -> None:
    (tmp_path / "config.json").write_text(DEEP)
    message = command("translate", tmp_path, given=b"a\n").mistake()
    assert "is of another format" in message
