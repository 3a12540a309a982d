"""Every kind of model learns to copy and to reverse, through the real command."""

from pathlib import Path

import pytest

from tests.command import Command
from tests.system.kinds_that_learn import SETTINGS, SLOW
from transduce.config.kinds import _OWN

SAME = [
    "data.subwords=whitespace",
    "data.clean=false",
    "model.vocab_size=14",
    "run.average=1",
    "run.score_sentences=0",
    "run.device=cpu",
]


def test_every_kind_of_this_package_learns() -> None:
    assert {name.partition(",")[0] for name in SETTINGS} == _OWN.keys()


def exact_share(kind: str, task: str, folder: Path, command: Command) -> float:
    """Train on a task, and return the share of unseen lines that come out exactly right."""
    made = command("data", "generate", task, "--to", folder, "--lengths", "1-6")
    assert made.code == 0, made.err
    files = [f"--{side}={folder / f'train.{side}'}" for side in ("src", "tgt")]
    dev = [f"--dev-{side}={folder / f'dev.{side}'}" for side in ("src", "tgt")]
    settings = [f"model.kind={kind.partition(',')[0]}", *SETTINGS[kind], *SAME]
    run = folder / "run"
    done = command("train", *files, *dev, "--out", run, *(f"--set={one}" for one in settings))
    assert done.code == 0, done.err
    written = command("translate", run, folder / "test.src", "--beam", "1", "--device", "cpu")
    assert written.code == 0, written.err
    right = (folder / "test.tgt").read_text(encoding="utf-8").splitlines()
    return sum(map(str.__eq__, written.out.splitlines(), right)) / len(right)


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.exhaustive] * (k in SLOW)) for k in SETTINGS]
)
def test_it_learns_to_reverse(kind: str, tmp_path: Path, command: Command) -> None:
    assert exact_share(kind, "reverse", tmp_path, command) > 0.98


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", SETTINGS)
def test_it_learns_to_copy(kind: str, tmp_path: Path, command: Command) -> None:
    assert exact_share(kind, "copy", tmp_path, command) > 0.98
