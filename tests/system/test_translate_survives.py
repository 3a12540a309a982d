"""`translate --out` that is stopped at any moment is continued to the same file, byte for byte."""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.command import Command, KillAt, Result, start
from tests.translation.likely import random_model, saved, sentences
from transduce.cli import translate as translate_command
from transduce.translation.torch_engine import TorchEngine

LINES = list(sentences(22))
FORMS = {
    "text": ("--beam", "1"),
    "jsonl": ("--beam", "2", "--jsonl"),
    "n-best": ("--beam", "3", "--n-best", "3"),
    "sample": ("--sample", "--seed", "4"),
}


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translate_command, "WINDOW_OF_FILE", 5)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "one", random_model(seed=5, max_positions=12))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "a.en"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


def interrupted_at(search: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a real SIGINT arrive while the window of this number is translated, from 1."""
    searches = []
    real = TorchEngine.search_with_retry

    def interrupted(self: TorchEngine, *arguments: Any) -> Any:
        searches.append(arguments)
        if len(searches) == search:
            signal.raise_signal(signal.SIGINT)
        return real(self, *arguments)

    monkeypatch.setattr(TorchEngine, "search_with_retry", interrupted)


@pytest.mark.parametrize("form", FORMS)
def test_what_ctrl_c_leaves_is_continued(
    form: str, model: Path, text: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments: list[str | Path] = ["translate", model, text, *FORMS[form], "--out"]
    assert command(*arguments, text.with_name("whole")).code == 0
    out = text.with_name("out")
    with monkeypatch.context() as patch:
        interrupted_at(3, patch)
        stopped = command(*arguments, out)
    assert stopped.code == 130
    last = stopped.err.splitlines()[-1]
    assert last == f"10 of 22 lines are in {out}.partial: the same command goes on from there"
    assert not out.exists()
    continued = command(*arguments, out)
    note = "10 of 22 lines were translated before: going on from there"
    assert (continued.code, continued.err.splitlines()[0]) == (0, note)
    assert out.read_bytes() == text.with_name("whole").read_bytes()
    assert sorted(path.name for path in out.parent.iterdir()) == ["a.en", "out", "whole"]


@pytest.mark.parametrize("form", ["text", "n-best"])
def test_a_kill_at_any_byte_is_continued(
    form: str, model: Path, text: Path, command: Command
) -> None:
    """SIGKILL leaves what was written up to some byte: here it is cut at many."""
    arguments: list[str | Path] = ["translate", model, text, *FORMS[form], "--window", "5", "--out"]
    out, partial = text.with_name("out"), text.with_name("out.partial")
    killed = start(
        *arguments, out, log=text.with_name("log"), kill_at=KillAt("os.rename", "partial")
    )
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    assert not out.exists()
    description = partial.with_name("out.partial.json").read_bytes()
    content = partial.read_bytes()
    total = content.count(b"\n")
    assert total >= len(LINES)
    for cut in [1, content.index(b"\n"), len(content) * 4 // 5, len(content)]:
        out.unlink(missing_ok=True)
        partial.write_bytes(content[:cut])
        partial.with_name("out.partial.json").write_bytes(description)
        result = command(*arguments, out)
        assert result.code == 0
        assert ("were translated before" in result.err) == (cut > len(content) // 4)
        assert out.read_bytes() == content


@pytest.mark.parametrize("event", ["open", "os.rename"])
def test_a_kill_while_it_starts_leaves_nothing_in_the_way(
    event: Any, model: Path, text: Path, command: Command
) -> None:
    arguments = ("translate", model, text, "--beam", "1", "--out", text.with_name("out"))
    pattern = r"partial\.json(\.[0-9a-f]+\.making)?"
    killed = start(*arguments, log=text.with_name("log"), kill_at=KillAt(event, pattern))
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    assert command(*arguments).code == 0
    left = {path.name for path in text.parent.iterdir()}
    assert left == {"a.en", "log", "out"}


def stopped(command: Command, monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> Result:
    with monkeypatch.context() as patch:
        interrupted_at(3, patch)
        return command("translate", *arguments)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("input", "input"),
        ("model", "model"),
        ("prefix", "prefix"),
        (("--beam", "2"), "beam"),
        (("--beam", "1", "--jsonl"), "jsonl"),
        (("--beam", "1", "--alpha", "1"), "alpha"),
    ],
)
def test_another_command_starts_over_and_says_so(
    change: Any,
    named: str,
    model: Path,
    text: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy, out = text.with_name("model"), text.with_name("out")
    shutil.copytree(model, copy)
    stopped(command, monkeypatch, copy, text, "--beam", "1", "--out", out)
    options = ("--beam", "1") if isinstance(change, str) else change
    if change == "input":
        text.write_text("".join(f"{line}!\n" for line in LINES), encoding="utf-8")
    elif change == "model":
        saved(copy, random_model(seed=6, max_positions=12))
    elif change == "prefix":
        options = (*options, "--prefix-text", "Sie")
    result = command("translate", copy, text, *options, "--out", out)
    first = result.err.splitlines()[0]
    assert first == f"{out}.partial was begun with another {named}: starting over"
    whole = text.with_name("whole")
    command("translate", copy, text, *options, "--out", whole)
    assert out.read_bytes() == whole.read_bytes()


def test_an_old_file_stays_until_the_new_one_is_complete(
    model: Path, text: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = text.with_name("out")
    out.write_text("from before")
    stopped(command, monkeypatch, model, text, "--beam", "1", "--out", out)
    assert out.read_text() == "from before"
    assert command("translate", model, text, "--beam", "1", "--out", out).code == 0
    assert out.read_text(encoding="utf-8").count("\n") == len(LINES)


def test_what_is_not_ours_is_not_overwritten(model: Path, text: Path, command: Command) -> None:
    mine = text.with_name("out.partial")
    mine.write_text("a file of the user's\n")
    result = command("translate", model, text, "--out", text.with_name("out"))
    assert "out.partial is in the way" in result.mistake()
    assert mine.read_text() == "a file of the user's\n"


def test_two_commands_do_not_write_one_file(model: Path, text: Path, command: Command) -> None:
    out = text.with_name("out")
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:  # holds the lock until the pipe is closed
        os.close(writer)
        import fcntl

        with out.with_name("out.partial").open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            out.with_name("locked").touch()
            os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    while not out.with_name("locked").exists():
        os.sched_yield()
    message = command("translate", model, text, "--out", out).mistake()
    os.close(writer)
    os.waitpid(process, 0)
    assert f"another command is writing {out}" in message


def test_nothing_done_leaves_nothing(
    model: Path, text: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted_at(1, monkeypatch)
    assert command("translate", model, text, "--out", text.with_name("out")).code == 130
    assert [path.name for path in text.parent.iterdir()] == ["a.en"]


def test_the_description_says_what_the_lines_are_of(
    model: Path, text: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(command, monkeypatch, model, text, "--beam", "1", "--out", text.with_name("out"))
    found = json.loads(text.with_name("out.partial.json").read_text())
    assert {"model", "input", "version", "beam"} <= found.keys()
