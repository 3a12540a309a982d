"""`translate --out` that is stopped at any moment is continued to the same file, byte for byte."""

import fcntl
import json
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command import Command, KillAt, Result, start
from tests.translation.likely import random_model, saved, sentences
from transduce.bulk import workers
from transduce.cli.translation import lines as translated_lines
from transduce.translation.load import load
from transduce.translation.torch_engine import TorchEngine
from transduce.translation.translator import Translator

LINES = list(sentences(22))
FORMS = {
    "text": ("--beam", "1"),
    "jsonl": ("--beam", "2", "--jsonl"),
    "n-best": ("--beam", "3", "--n-best", "3"),
    "sample": ("--sample", "--seed", "4"),
}


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translated_lines, "WINDOW_OF_FILE", 5)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "one", random_model(seed=5, max_positions=12))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "a.en"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def ctrl_c_interrupts() -> Iterator[None]:
    """Whatever started the tests may have them ignore Ctrl-C, as a shell does in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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


@pytest.mark.exhaustive(after=2)
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


@pytest.mark.exhaustive(after=3)
@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ("input", "input [0-9a-f]{8}, not [0-9a-f]{8}"),
        ("model", "model [0-9a-f]{8}, not [0-9a-f]{8}"),
        ("prefix", 'prefix none, not "Sie"'),
        (("--beam", "2"), "beam 1, not 2"),
        (("--beam", "1", "--engine", "ctranslate2"), 'the engine "torch", not "ctranslate2"'),
        (("--beam", "1", "--jsonl"), "jsonl false, not true"),
        (("--beam", "2", "--alpha", "1"), r"beam 1, not 2; alpha 0\.6, not 1\.0"),
    ],
)
def test_another_command_is_refused_and_leaves_what_is_done(
    change: Any,
    difference: str,
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
    left = [path.read_bytes() for path in sorted(out.parent.glob("out.partial*"))]
    assert len(left) == 2
    message = command("translate", copy, text, *options, "--out", out).mistake()
    advice = (
        "give the same command again to go on; to start over, remove "
        f"{out}.partial or choose another --out"
    )
    begun = re.escape(f"{out}.partial was begun with ")
    why = ", which may give other lines: "
    assert re.fullmatch(f"{begun}{difference}{why}{re.escape(advice)}", message)
    assert left == [path.read_bytes() for path in sorted(out.parent.glob("out.partial*"))]
    assert not out.exists()
    out.with_name("out.partial").unlink()
    assert command("translate", copy, text, *options, "--out", out).code == 0
    assert out.read_bytes().count(b"\n") == len(LINES)


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize("name", ["version", "device", "window"])
def test_what_changes_no_translation_does_not_stop_it(
    name: str, model: Path, text: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also an option that the version which began the file did not have."""
    out, description = text.with_name("out"), text.with_name("out.partial.json")
    stopped(command, monkeypatch, model, text, "--beam", "1", "--out", out)
    begun = json.loads(description.read_text())
    before = {"version": "0.1", "device": "tpu", "window": 3}[name]
    now = begun[name]
    del begun["second_try"]
    description.write_text(json.dumps(begun | {name: before}))
    result = command("translate", model, text, "--beam", "1", "--out", out)
    assert result.code == 0
    assert result.err.splitlines()[:2] == [
        f"{out}.partial was begun with {name} {json.dumps(before)}, not {json.dumps(now)}: "
        "going on with it",
        "10 of 22 lines were translated before: going on from there",
    ]
    command("translate", model, text, "--beam", "1", "--out", text.with_name("whole"))
    assert out.read_bytes() == text.with_name("whole").read_bytes()


def test_what_an_older_version_does_not_name_was_not_given(
    model: Path, text: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, description = text.with_name("out"), text.with_name("out.partial.json")
    stopped(command, monkeypatch, model, text, "--beam", "1", "--out", out)
    begun = json.loads(description.read_text())
    for name in ("wording", "memory", "shortlist"):
        del begun[name]
    description.write_text(json.dumps(begun))
    again = ("translate", model, text, "--beam", "1", "--out", out)
    assert "wording none, not " in command(*again, "--keep-placeholders").mistake()
    assert "10 of 22 lines were translated before" in command(*again).err


@pytest.mark.exhaustive(after=4)
@pytest.mark.parametrize("form", ["jsonl", "n-best"])
@pytest.mark.parametrize(
    "damage",
    ["note\n", "\0\n", "7 ||| text ||| -1.0\n", "\xb2 ||| a ||| 1\n", "[" * 100_000 + "\n"],
)
def test_what_someone_has_edited_is_refused_in_one_line(
    form: str,
    damage: str,
    model: Path,
    text: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, partial = text.with_name("out"), text.with_name("out.partial")
    stopped(command, monkeypatch, model, text, *FORMS[form], "--out", out)
    first, *rest = partial.read_text(encoding="utf-8").splitlines(keepends=True)
    partial.write_text("".join([first, damage, *rest]), encoding="utf-8")
    message = command("translate", model, text, *FORMS[form], "--out", out).mistake()
    assert message.startswith(f"{partial} line 2 was changed or damaged: to start over, remove")
    assert partial.read_text(encoding="utf-8") == "".join([first, damage, *rest])


def add_checkpoint(run: Path, seed: int, step: int, loss: float) -> Path:
    """Add a checkpoint that is the best so far to a run that is not over."""
    scratch = saved(run.with_name("scratch"), random_model(seed=seed, max_positions=12))
    folder = run / "checkpoints" / f"step-{step:012}"
    folder.mkdir(parents=True)
    shutil.copy(scratch / "model.safetensors", folder)
    state = {"progress": {"best": {"loss": loss}}, "scores": {"loss": loss}}
    (folder / "state.json").write_text(json.dumps(state))
    return folder


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_run_that_finds_better_weights_meanwhile_is_another_model(
    is_removed: bool, model: Path, text: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The better weights appear just after the first command has loaded its own."""
    run, out = shutil.copytree(model, text.with_name("run")), text.with_name("out")
    (run / "model.safetensors").unlink()
    (run / "provenance.json").write_text("{}")
    first = add_checkpoint(run, seed=5, step=8, loss=2.0)
    real = load

    def load_slowly(*arguments: Any, **options: Any) -> Translator:
        translator = real(*arguments, **options)
        add_checkpoint(run, seed=6, step=16, loss=1.0)
        if is_removed:
            shutil.rmtree(first)
        return translator

    with monkeypatch.context() as patch:
        patch.setattr(workers, "load", load_slowly)
        left = stopped(command, monkeypatch, run, text, "--beam", "1", "--out", out)
    assert left.code == 130, left.err
    again = command("translate", run, text, "--beam", "1", "--out", out)
    assert again.code == 2, "its lines are of the weights that were loaded, not of these"
    assert re.search(rf"{out}\.partial was begun with .*\bmodel\b", again.err)
    assert not out.exists()


@pytest.mark.parametrize("given", [b"", b"A dog.\n"], ids=["file", "pipe"])
def test_a_file_is_never_replaced(model: Path, text: Path, command: Command, given: bytes) -> None:
    inputs = [] if given else [text]
    before = text.read_bytes()
    message = command("translate", model, *inputs, "--out", text, given=given).mistake()
    assert message == f"{text} exists already: choose another --out, or remove it"
    assert text.read_bytes() == before
    empty = text.with_name("empty")
    empty.touch()
    assert command("translate", model, *inputs, "--out", empty, given=given).code == 0


def test_what_is_not_ours_is_not_overwritten(model: Path, text: Path, command: Command) -> None:
    mine = text.with_name("out.partial")
    mine.write_text("a file of the user's\n")
    result = command("translate", model, text, "--out", text.with_name("out"))
    assert "out.partial is in the way" in result.mistake()
    assert mine.read_text() == "a file of the user's\n"


def test_two_commands_do_not_write_one_file(model: Path, text: Path, command: Command) -> None:
    out = text.with_name("out")
    with out.with_name("out.partial").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)  # which holds for every other opening of the file
        message = command("translate", model, text, "--out", out).mistake()
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


def test_the_engine_that_is_taken_anyway_may_be_named(
    model: Path, text: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = text.with_name("out")
    stopped(command, monkeypatch, model, text, "--beam", "1", "--out", out)
    again = command("translate", model, text, "--beam", "1", "--engine", "torch", "--out", out)
    assert again.code == 0, again.err
    assert "10 of 22 lines were translated before" in again.err
