"""`transduce demo` goes the whole way, and resumes where it was stopped."""

import contextlib
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from transduce.analysis import curves
from transduce.cli import demo as module
from transduce.cli.app import app
from transduce.files.checksums import RECORD_CHECKSUM
from transduce.translation.load import load


@contextlib.contextmanager
def small() -> Iterator[pytest.MonkeyPatch]:
    """Take less text and fewer steps: how well it translates is not the question here."""
    sizes = {"TRAIN": 300, "DEV": 8, "TEST": 12, "STEPS": 4, "QUICK_STEPS": 2}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in sizes.items():
            patch.setattr(module, name, value)
        patch.setattr(os, "cpu_count", lambda: 1)  # so little text needs no second process
        yield patch


@pytest.fixture(autouse=True)
def _small(tmp_path: Path) -> Iterator[None]:
    with small() as patch:
        patch.chdir(tmp_path)
        yield


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "available", lambda: False)


@dataclass(frozen=True)
class Demo:
    """What a demo printed, and the folder in which it ran."""

    folder: Path
    out: str
    err: str


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    folder = tmp_path_factory.mktemp("demo")
    with small() as patch:
        patch.chdir(folder)
        result = CliRunner().invoke(app, ["demo", "The small dog sleeps."])
    assert result.exit_code == 0, result.output
    return Demo(folder, result.stdout, result.stderr)


def test_the_demo_ends_with_a_model_pictures_and_what_to_do_next(done: Demo) -> None:
    assert "On 12 sentences that it has never seen: BLEU " in done.out
    for phase in ("text", "training", "scoring", "pictures", "total"):
        assert f"[{phase}: " in done.out
    assert "The small dog sleeps.\n  " in done.out
    folder = done.folder / "runs/demo"
    [translation] = load(folder / "model").translate(["The small dog sleeps."])
    assert translation.text in done.out
    assert (folder / "attention.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (folder / "attention.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "text/train.de").read_text(encoding="utf-8").count("\n") == 300


def test_the_training_of_the_demo_names_no_option_that_the_demo_lacks(done: Demo) -> None:
    assert "time: about " in done.err
    assert "--minutes" not in done.err


@pytest.mark.usefixtures("without_pictures")
def test_the_commands_it_ends_with_run() -> None:
    result = CliRunner().invoke(app, ["demo", "--out", "a folder", "--quick"])
    _, _, shown = result.stdout.partition("Next,")
    commands = shown.replace("\\\n", " ").splitlines()[1:]
    assert len(commands) == 3
    for command in commands:
        words = shlex.split(command)
        arguments = words[words.index("transduce") + 1 :]
        if arguments[0] == "train":
            arguments += ["--steps", "2"]
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output


def test_sentences_held_out_are_shown_below_each_score(done: Demo) -> None:
    lines = done.err.splitlines()
    [score] = [number for number, line in enumerate(lines) if "dev loss" in line]
    shown = [line.split(maxsplit=1) for line in lines[score + 1 : score + 7]]
    texts = [(done.folder / f"runs/demo/text/dev.{end}").read_text("utf-8") for end in ("en", "de")]
    held_out = list(zip(*map(str.splitlines, texts), strict=True))
    assert [label for label, *_ in shown] == ["source", "reference", "translation"] * 2
    assert {(shown[0][1], shown[1][1]), (shown[3][1], shown[4][1])} <= set(held_out)


@pytest.mark.usefixtures("without_pictures")
def test_run_again_it_uses_the_model_that_is_there(done: Demo, tmp_path: Path) -> None:
    shutil.copytree(done.folder, tmp_path, dirs_exist_ok=True)
    weights = tmp_path / "runs/demo/model/model.safetensors"
    before = weights.stat().st_mtime_ns
    quick = CliRunner().invoke(app, ["demo", "--quick"])
    again = CliRunner().invoke(app, ["demo"])
    assert (quick.exit_code, again.exit_code) == (0, 0)
    assert weights.stat().st_mtime_ns == before
    assert "is finished: nothing is left to do" in again.stderr
    assert "is trained already; --fresh starts over.\n" in again.stdout
    assert "1. generates" not in again.stdout


@pytest.mark.usefixtures("without_pictures")
def test_resumed_it_says_so_and_counts_the_time_before(
    done: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A demo with more steps goes on as one that was stopped does."""
    shutil.copytree(done.folder, tmp_path, dirs_exist_ok=True)
    state = max(tmp_path.glob("runs/demo/model/checkpoints/*")) / "state.json"
    tree = json.loads(state.read_text())
    tree["progress"]["seconds"] = 5000.0
    del tree[RECORD_CHECKSUM]
    state.write_text(json.dumps(tree))
    monkeypatch.setattr(module, "STEPS", 6)
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Resuming the demo in runs/demo after 4 of 6 steps; --fresh")
    assert "1. generates" not in result.stdout
    [[total]] = [re.findall(r"\[total: (\d+) s, with 5000 s of training before\]", result.stdout)]
    assert int(total) >= 5000


def skip_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_train", "_score", "_draw", "_try"):
        monkeypatch.setattr(module, name, lambda *_arguments, **_options: None)


@pytest.mark.parametrize("phase", ["write_text", "_train", "_score", "_draw", "_try"])
def test_stopped_in_any_phase_it_says_so(monkeypatch: pytest.MonkeyPatch, phase: str) -> None:
    def stop(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    skip_phases(monkeypatch)
    monkeypatch.setattr(module, phase, stop)
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 130
    assert result.stderr.endswith("Stopped. The same command resumes from here.\n")


@pytest.mark.usefixtures("without_pictures")
def test_without_matplotlib_it_says_how_to_get_the_picture(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", "--quick"])
    assert result.exit_code == 0, result.output
    assert "for attention.png: pip install 'transduce[plot]' (in a clone: pip" in result.stdout
    assert not (tmp_path / "runs/demo/attention.png").exists()


def test_the_program_is_named_as_it_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_phases(monkeypatch)
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr(sys, "argv", [".venv/bin/transduce", "demo"])
    result = CliRunner().invoke(app, ["demo", "--quick"])
    assert "\n  .venv/bin/transduce translate runs/demo/quick " in result.stdout


@pytest.mark.usefixtures("without_pictures")
def test_a_demo_that_is_trained_translates_what_is_piped_in_without_generating_text(
    done: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(done.folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(module, "write_text", lambda *_arguments, **_sizes: pytest.fail("written"))
    again = CliRunner().invoke(app, ["demo"], input="The dog sleeps.\n\nThe cat sleeps.\n")
    assert again.exit_code == 0, again.output
    assert "\nThe dog sleeps.\n  " in again.stdout
    assert "\nThe cat sleeps.\n  " in again.stdout
    assert "Below a score: " not in again.stdout
    nothing = CliRunner().invoke(app, ["demo"])
    assert "For sentences of your own: " in nothing.stdout
