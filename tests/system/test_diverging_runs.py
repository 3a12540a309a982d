"""A run whose steps are all skipped keeps its sound checkpoints, and does not end well."""

import math
from pathlib import Path
from typing import Any

import pytest

from tests.command import Command
from tests.system.small_runs import stopped_run, training, write_corpus
from transduce.training.step import loss, train_step


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "text")


def lose_all_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every step find a loss that is NaN."""
    smoothed_loss = loss.smoothed_loss

    def not_finite(*arguments: Any, eps_ls: float, **named: Any) -> Any:
        smoothed, nll = smoothed_loss(*arguments, eps_ls=eps_ls, **named)
        return smoothed * (math.nan if eps_ls else 1), nll  # the dev loss is without eps_ls

    monkeypatch.setattr(train_step, "smoothed_loss", not_finite)


def content(run: Path) -> dict[str, bytes]:
    """Return the tensors of all checkpoints."""
    paths = sorted((run / "checkpoints").rglob("*.safetensors"))
    return {str(path.relative_to(run)): path.read_bytes() for path in paths if path.is_file()}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"run__checkpoint_steps": 1}, "training diverged: 5 steps in a row were skipped"),
        ({"run__checkpoint_steps": 5}, "training diverged: 5 steps in a row were skipped"),
        ({"training__steps": 12}, "no weights were learned: none of 12 steps could be taken"),
        ({"training__steps": 1}, "no weights were learned: none of 1 step could be taken"),
    ],
    ids=["every step", "every rollback", "until the end", "one step"],
)
def test_a_new_run_that_learns_nothing_fails(
    settings: dict[str, object],
    message: str,
    corpus: Path,
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lose_all_steps(monkeypatch)
    run = tmp_path / "run"
    done = command(*training(corpus, run, **({"training__steps": 40} | settings)))
    assert done.code != 0
    assert message in done.err
    assert {path.parts[1] for path in map(Path, content(run))} == {"step-000000000000"}
    assert not (run / "model.safetensors").exists()
    assert not (run / "README.md").exists()


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize(
    ("steps", "message"),
    [(40, "training diverged: 5 steps in a row"), (13, "training diverged: the last 6 steps up")],
    ids=["midway", "until the end"],
)
def test_sound_checkpoints_outlive_steps_that_are_all_skipped(
    steps: int,
    message: str,
    corpus: Path,
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Checkpoints are due so often that one would be written after each rollback."""
    run = stopped_run(
        corpus, tmp_path / "run", after=20, run__checkpoint_steps=1, training__steps=steps
    )
    before = content(run)
    last = max(int(path.name[5:]) for path in (run / "checkpoints").iterdir())
    assert last == 7
    lose_all_steps(monkeypatch)
    done = command(*training(corpus, run, run__checkpoint_steps=1, training__steps=steps))
    assert done.code != 0
    assert message in done.err
    kept = {
        name: tensors for name, tensors in before.items() if "00006/" in name or "00007/" in name
    }
    assert len(kept) == 4, "both can be resumed"
    assert content(run) == kept
    assert not (run / "README.md").exists()
