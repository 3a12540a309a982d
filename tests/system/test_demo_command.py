"""`transduce demo` goes the whole way, and goes on where it was stopped."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from transduce.cli import demo as module
from transduce.cli.app import app
from transduce.decoding.translator import load


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Take less text and fewer steps: what is learnt is not the question here."""
    for name, value in {"TRAIN": 300, "DEV": 8, "TEST": 12, "STEPS": 4, "QUICK_STEPS": 2}.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.chdir(tmp_path)


def test_the_demo_ends_with_a_model_a_page_and_what_to_do_next(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", "The small dog sleeps.", "--quick"])
    assert result.exit_code == 0, result.output
    assert "On 12 sentences that it has never seen: BLEU " in result.stdout
    for phase in ("text", "training", "scoring", "pictures"):
        assert f"[{phase}: " in result.stdout
    assert "The small dog sleeps.\n  " in result.stdout
    assert "transduce translate runs/demo/model" in result.stdout
    folder = tmp_path / "runs/demo"
    [translation] = load(folder / "model").translate(["The small dog sleeps."])
    assert translation.text in result.stdout
    assert (folder / "attention.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (folder / "text/train.de").read_text(encoding="utf-8").count("\n") == 300


def test_run_again_it_uses_the_model_that_is_there(tmp_path: Path) -> None:
    first = CliRunner().invoke(app, ["demo", "--quick"])
    weights = tmp_path / "runs/demo/model/model.safetensors"
    before = weights.stat().st_mtime_ns
    second = CliRunner().invoke(app, ["demo", "--quick"])
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert weights.stat().st_mtime_ns == before
    assert "is finished: nothing is left to do" in second.stderr
