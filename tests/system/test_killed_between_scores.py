"""A run that is killed between two scores resumes from a checkpoint that it wrote by the clock."""

import json
import signal
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.command import KillAt, start
from transduce.grammar import generate

SETTINGS = {
    "model.vocab_size": 400,
    "model.n_layers": 1,
    "model.d_model": 16,
    "model.d_ff": 16,
    "model.h": 2,
    "training.batch_tokens": 300,
    "training.steps": 4,
    "run.checkpoint_steps": 1000,
    "run.save_minutes": 1e-9,  # at every step, however quick
    "run.score_sentences": 0,
}
BEFORE_THE_THIRD = KillAt("os.rename", r"step-0*3\b.*")


def train(folder: Path, *, kill_at: KillAt | None = None) -> BaseProcess:
    files = ("--src", folder / "a.en", "--tgt", folder / "a.de", "--out", folder / "run")
    settings = (f"--set={name}={value}" for name, value in SETTINGS.items())
    return start("train", *files, *settings, log=folder / "log", kill_at=kill_at)


def test_a_kill_costs_what_is_younger_than_save_minutes(tmp_path: Path) -> None:
    pairs = list(generate(200, seed=3))
    (tmp_path / "a.en").write_text("".join(f"{pair.src}\n" for pair in pairs), encoding="utf-8")
    (tmp_path / "a.de").write_text("".join(f"{pair.tgt}\n" for pair in pairs), encoding="utf-8")
    killed = train(tmp_path, kill_at=BEFORE_THE_THIRD)
    killed.join()
    assert killed.exitcode == -signal.SIGKILL, (tmp_path / "log").read_text()
    resumed = train(tmp_path)
    resumed.join()
    assert resumed.exitcode == 0, (tmp_path / "log").read_text()
    journal = (tmp_path / "run" / "journal.jsonl").read_text(encoding="utf-8")
    events = [json.loads(line) for line in journal.splitlines()]
    assert [event["step"] for event in events if event["event"] == "Started"] == [0, 2]
