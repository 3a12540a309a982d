"""Killed at any moment, `transduce train` run again ends with the very same weights.

`pytest tests/system/test_train_survives.py --moments 20` tries more moments than the usual run.
"""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from transduce.data.grammar import generate

STEPS = 60
SETTINGS = {
    "model.vocab_size": 400,
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
    "run.bleu_sentences": 20,
}


def command(corpus: Path, out: Path, **changes: object) -> list[str]:
    settings = [f"--set={name}={value}" for name, value in (SETTINGS | changes).items()]
    files = ["--src", str(corpus / "a.en"), "--tgt", str(corpus / "a.de"), "--out", str(out)]
    return [sys.executable, "-m", "transduce", "train", *files, *settings]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    pairs = list(generate(600, seed=3))
    (folder / "a.en").write_text("".join(f"{pair.src}\n" for pair in pairs), encoding="utf-8")
    (folder / "a.de").write_text("".join(f"{pair.tgt}\n" for pair in pairs), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def undisturbed(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    subprocess.run(command(corpus, out), check=True, capture_output=True)
    return out


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


def journal_says(event: str) -> Callable[[Path], bool]:
    return lambda out: event in _text(out / "journal.jsonl")


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def building_a_store(out: Path) -> bool:
    return any((out / "data").glob("*.making/*.ids"))


def writing_a_checkpoint(out: Path) -> bool:
    return any((out / "checkpoints").glob("step-*[1-9]*.making/*"))


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
        with subprocess.Popen(
            command(corpus, out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            while process.poll() is None and not moment(out):
                time.sleep(0.002)
            process.send_signal(number)
            _, errors = process.communicate()
        if process.returncode == 0:  # it had ended before the moment came
            return hits
        expected = {-signal.SIGKILL} if number == signal.SIGKILL else {143, -signal.SIGTERM}
        assert process.returncode in expected, errors
        hits += 1
    subprocess.run(command(corpus, out), check=True, capture_output=True)
    return hits


def random_moments(count: int, dice: random.Random) -> Iterator[Callable[[Path], bool]]:
    for _ in range(count):
        yield after(dice.uniform(1.5, 6.0))


@pytest.mark.parametrize(
    "moment", [building_a_store, writing_a_checkpoint, scoring], ids=lambda moment: moment.__name__
)
def test_killed_at_a_delicate_moment(
    moment: Callable[[Path], bool], corpus: Path, undisturbed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    assert disturbed(corpus, out, iter([moment]), signal.SIGKILL) == 1
    assert results(out) == results(undisturbed)
    assert history(out) == history(undisturbed)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_at_random_moments(
    number: int, corpus: Path, undisturbed: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """As many runs as it takes to be killed so often."""
    count, hits = int(request.config.getoption("--moments")), 0
    dice = random.Random(5)  # noqa: S311 - a test repeats itself
    while hits < count:
        out = tmp_path / str(hits)
        hits += disturbed(corpus, out, random_moments(count - hits, dice), number)
        assert results(out) == results(undisturbed)
        assert {step for step, *_ in history(out)} >= {step for step, *_ in history(undisturbed)}
