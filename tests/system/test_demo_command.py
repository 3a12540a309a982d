"""`transduce demo` goes the whole way, and goes on where it was stopped."""

import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from transduce.analysis import curves
from transduce.cli import demo as module
from transduce.cli.app import app
from transduce.decoding.translator import load


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Take less text and fewer steps: what is learnt is not the question here."""
    for name, value in {"TRAIN": 300, "DEV": 8, "TEST": 12, "STEPS": 4, "QUICK_STEPS": 2}.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.chdir(tmp_path)


def test_the_demo_ends_with_a_model_pictures_and_what_to_do_next(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", "The small dog sleeps."])
    assert result.exit_code == 0, result.output
    assert "On 12 sentences that it has never seen: BLEU " in result.stdout
    for phase in ("text", "training", "scoring", "pictures", "in all"):
        assert f"[{phase}: " in result.stdout
    assert "The small dog sleeps.\n  " in result.stdout
    folder = tmp_path / "runs/demo"
    [translation] = load(folder / "model").translate(["The small dog sleeps."])
    assert translation.text in result.stdout
    assert (folder / "attention.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (folder / "attention.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "text/train.de").read_text(encoding="utf-8").count("\n") == 300


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


def test_sentences_held_out_are_shown_below_each_score() -> None:
    lines = CliRunner().invoke(app, ["demo"]).stderr.splitlines()
    [score] = [number for number, line in enumerate(lines) if "dev loss" in line]
    shown = lines[score + 1 : score + 1 + 2 * module.SHOWN]
    held_out = Path("runs/demo/text/dev.en").read_text(encoding="utf-8").splitlines()
    assert [line.strip() for line in shown[::2]] == held_out[: module.SHOWN]


def test_run_again_it_uses_the_model_that_is_there(tmp_path: Path) -> None:
    first = CliRunner().invoke(app, ["demo"])
    weights = tmp_path / "runs/demo/model/model.safetensors"
    before = weights.stat().st_mtime_ns
    quick = CliRunner().invoke(app, ["demo", "--quick"])
    second = CliRunner().invoke(app, ["demo"])
    assert (first.exit_code, quick.exit_code, second.exit_code) == (0, 0, 0)
    assert weights.stat().st_mtime_ns == before
    assert "is finished: nothing is left to do" in second.stderr


@pytest.mark.parametrize("phase", ["write_text", "_train", "_score", "_draw", "_try"])
def test_stopped_in_any_phase_it_says_so(monkeypatch: pytest.MonkeyPatch, phase: str) -> None:
    def stop(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    for name in ("_train", "_score", "_draw", "_try"):
        monkeypatch.setattr(module, name, lambda *_arguments, **_options: None)
    monkeypatch.setattr(module, phase, stop)
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 130
    assert result.stderr.endswith("Stopped. The same command goes on from here.\n")


def test_without_matplotlib_it_says_how_to_get_the_picture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(curves, "available", lambda: False)
    result = CliRunner().invoke(app, ["demo", "--quick"])
    assert result.exit_code == 0, result.output
    assert "pip install 'transduce[plot]' for attention.png" in result.stdout
    assert not (tmp_path / "runs/demo/attention.png").exists()


def test_the_program_is_named_as_it_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr(sys, "argv", [".venv/bin/transduce", "demo"])
    result = CliRunner().invoke(app, ["demo", "--quick"])
    assert "\n  .venv/bin/transduce translate runs/demo/quick " in result.stdout
