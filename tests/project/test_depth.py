"""From the command to the loss it is not far to read."""

import sys
import traceback
from pathlib import Path

import pytest

from transduce.cli.app import main
from transduce.grammar import generate
from transduce.training.run import prepare
from transduce.training.step import train_step

MAX_FRAMES, MAX_FILES = 6, 4


class ReachedLossError(Exception):
    pass


def test_six_frames_in_four_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, side in (("a.en", 0), ("a.de", 1)):
        lines = (pair[side] for pair in generate(40, seed=1))
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    stacks: list[traceback.StackSummary] = []

    def loss(*_: object, **__: object) -> None:
        stacks.append(traceback.extract_stack())
        raise ReachedLossError

    monkeypatch.setattr(prepare, "measure_speed", lambda *_: 1e4)  # it trains a few steps too
    monkeypatch.setattr(train_step, "smoothed_loss", loss)
    files = ["--src", str(tmp_path / "a.en"), "--tgt", str(tmp_path / "a.de")]
    small = ["model.vocab_size=300", "model.n_layers=1", "model.d_model=16", "model.h=2"]
    settings = [f"--set={setting}" for setting in (*small, "run.device=cpu")]
    command = ["train", *files, "--out", str(tmp_path / "run"), *settings]
    monkeypatch.setattr(sys, "argv", ["transduce", *command])
    with pytest.raises(ReachedLossError):
        main()
    names = [(Path(frame.filename).as_posix(), frame.name) for frame in stacks[0]]
    first = next(i for i, (file, _) in enumerate(names) if file.endswith("transduce/cli/train.py"))
    assert names[first][1] == "train"
    path = names[first:]  # the last is the loss, here in this file
    assert len(path) <= MAX_FRAMES, path
    assert len({file for file, _ in path}) <= MAX_FILES, path
