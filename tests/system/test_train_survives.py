"""Killed at any moment, `transduce train` run again ends with the very same weights.

`pytest tests/system/test_train_survives.py --moments 20` tries more moments than the usual run.
"""

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tests.command import KillAt, start
from tests.system.small_runs import MAX_POSITIONS, short_pairs

STEPS = 30
SETTINGS = {
    "model.vocab_size": 400,
    "model.max_positions": MAX_POSITIONS,
    "model.n_layers": 1,
    "model.d_model": 32,
    "model.d_ff": 64,
    "model.h": 2,
    "training.batch_tokens": 300,
    "training.warmup_steps": 20,
    "training.steps": STEPS,
    "run.checkpoint_steps": 8,
    "run.average": 3,
    "run.ema_decay": 0.9,
    "run.score_sentences": 20,
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    pairs = short_pairs(600, seed=3)
    (folder / "a.en").write_text("".join(f"{pair.src}\n" for pair in pairs), encoding="utf-8")
    (folder / "a.de").write_text("".join(f"{pair.tgt}\n" for pair in pairs), encoding="utf-8")
    return folder


@dataclass(frozen=True)
class Undisturbed:
    """A run that nothing stopped."""

    out: Path
    seconds: float


@pytest.fixture(scope="module")
def undisturbed(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    began = time.monotonic()
    assert ended(train(corpus, out)) == 0, printed(out)
    return Undisturbed(out, time.monotonic() - began)


def train(corpus: Path, out: Path, *, kill_at: KillAt | None = None) -> BaseProcess:
    files = ("--src", corpus / "a.en", "--tgt", corpus / "a.de", "--out", out)
    settings = (f"--set={name}={value}" for name, value in SETTINGS.items())
    return start("train", *files, *settings, log=out.with_suffix(".log"), kill_at=kill_at)


def ended(process: BaseProcess) -> int | None:
    process.join()
    return process.exitcode


def printed(out: Path) -> str:
    return out.with_suffix(".log").read_text(encoding="utf-8")


def results(out: Path) -> dict[str, bytes]:
    """All tensors that a run ends with."""
    last = max((out / "checkpoints").iterdir())
    files = [out / "model.safetensors", *sorted(last.glob("*.safetensors"))]
    return {
        file.name + file.parent.name * (file.parent == last): file.read_bytes() for file in files
    }


def history(out: Path) -> list[tuple[object, ...]]:
    """What the journal says was computed, without the times."""
    lines = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    steps = [(line["step"], line["loss"]) for line in lines if line["event"] == "Stepped"]
    scores = {line["step"]: line["loss"] for line in lines if line["event"] == "Scored"}
    return [*sorted(set(steps)), *sorted(scores.items())]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def scoring(out: Path) -> bool:
    """A checkpoint of a step that is to be scored is whole and has no scores yet."""
    newest = max((out / "checkpoints").glob("step-*[0-9]"), default=None)
    if newest is None or int(newest.name[5:]) == 0:
        return False
    return '"scores": null' in _text(newest / "state.json")


def after(seconds: float) -> Callable[[Path], bool]:
    start = time.monotonic()
    return lambda _out: time.monotonic() - start > seconds


def disturbed(
    corpus: Path, out: Path, moments: Iterator[Callable[[Path], bool]], number: int
) -> int:
    """Run again and again, each time with a signal at the next moment, until the run ends."""
    hits = 0
    for moment in moments:
        process = train(corpus, out)
        while process.is_alive() and not moment(out):
            time.sleep(0.002)
        assert process.pid is not None
        if process.is_alive():
            os.kill(process.pid, number)
        code = ended(process)
        if code == 0:  # it had ended before the moment came
            return hits
        expected = {-signal.SIGKILL} if number == signal.SIGKILL else {143, -signal.SIGTERM}
        assert code in expected, printed(out)
        hits += 1
    assert ended(train(corpus, out)) == 0, printed(out)
    return hits


MAKING = r"\.[0-9a-f]{16}\.making"
STEP_8 = r"/checkpoints/step-0{11}8"
exhaustive = pytest.mark.exhaustive


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(KillAt("open", rf"{MAKING}/\w+\.ids"), id="building a store"),
        pytest.param(
            KillAt("os.rename", rf"/data/[0-9a-f]+{MAKING}"), id="a store built", marks=exhaustive
        ),
        pytest.param(KillAt("open", rf"{STEP_8}{MAKING}/optimiser.*"), id="writing a checkpoint"),
        pytest.param(
            KillAt("os.rename", rf"{STEP_8}{MAKING}"), id="a checkpoint written", marks=exhaustive
        ),
        pytest.param(KillAt("os.rename", rf"{STEP_8}/state\.json{MAKING}"), id="scores written"),
    ],
)
def test_killed_at_a_delicate_moment(
    moment: KillAt, corpus: Path, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    assert ended(train(corpus, out, kill_at=moment)) == -signal.SIGKILL, printed(out)
    assert ended(train(corpus, out)) == 0, printed(out)
    assert results(out) == results(undisturbed.out)
    assert history(out) == history(undisturbed.out)


def test_killed_while_scoring(corpus: Path, undisturbed: Undisturbed, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert disturbed(corpus, out, iter([scoring]), signal.SIGKILL) == 1
    assert results(out) == results(undisturbed.out)
    assert history(out) == history(undisturbed.out)


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_killed_at_random_moments(
    number: int,
    corpus: Path,
    undisturbed: Undisturbed,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """Start runs until `--moments` of them were killed."""
    count, hits = int(request.config.getoption("--moments")), 0
    dice = random.Random(5)  # noqa: S311 - a test repeats itself
    while hits < count:
        out = tmp_path / str(hits)
        moments = (after(dice.uniform(0, undisturbed.seconds)) for _ in range(count - hits))
        hits += disturbed(corpus, out, moments, number)
        assert results(out) == results(undisturbed.out)
        steps = {step for step, *_ in history(out)}
        assert steps >= {step for step, *_ in history(undisturbed.out)}
