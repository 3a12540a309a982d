"""Runs of a second through the real command, and runs that were stopped."""

from functools import cache
from itertools import islice
from pathlib import Path

import transduce
from transduce.data.corpus import Pair
from transduce.grammar import generate
from transduce.training.progress import ProgressCallback

MAX_POSITIONS = 28
"""For `short_pairs` with a vocabulary of 300: a model that has learnt little writes until here."""

SETTINGS: dict[str, object] = {
    "model.vocab_size": 300,
    "model.max_positions": MAX_POSITIONS,
    "model.n_layers": 1,
    "model.d_model": 16,
    "model.d_ff": 32,
    "model.h": 2,
    "training.batch_tokens": 300,
    "training.schedule": "linear",
    "training.learning_rate": 0.01,
    "training.warmup_steps": 20,
    "training.steps": 20,
    "run.checkpoint_steps": 8,
    "run.average": 2,
    "run.score_sentences": 4,
    "run.device": "cpu",  # where the same numbers come out every time
}


@cache
def short_pairs(count: int, *, seed: int) -> tuple[Pair, ...]:
    """Generate short pairs: most of a small run's time goes into translating its dev set."""
    pairs = generate(20 * count, seed=seed)
    return tuple(islice((pair for pair in pairs if max(map(len, pair)) <= 30), count))


def write_corpus(folder: Path) -> Path:
    """Write 300 pairs as a.en and a.de."""
    folder.mkdir(parents=True, exist_ok=True)
    pairs = short_pairs(300, seed=4)
    (folder / "a.en").write_text("".join(f"{pair.src}\n" for pair in pairs), encoding="utf-8")
    (folder / "a.de").write_text("".join(f"{pair.tgt}\n" for pair in pairs), encoding="utf-8")
    return folder


def changes(**settings: object) -> list[str]:
    """Write settings as options; `training__steps` is `training.steps`."""
    given = SETTINGS | {name.replace("__", "."): value for name, value in settings.items()}
    return [f"--set={name}={value}" for name, value in given.items() if value is not None]


def training(corpus: Path, out: Path, **settings: object) -> list[str]:
    """Return the arguments of a small run; a setting that is None is left out."""
    files = ["--src", str(corpus / "a.en"), "--tgt", str(corpus / "a.de"), "--out", str(out)]
    return ["train", *files, *changes(**settings)]


def stopped_run(
    corpus: Path,
    out: Path,
    *,
    after: int,
    progress: ProgressCallback = lambda _event: None,
    **settings: object,
) -> Path:
    """Train as the command does, but stop after some steps."""
    asked = 0

    def should_stop() -> bool:
        nonlocal asked
        asked += 1
        return asked >= after

    outcome = transduce.train(
        src=corpus / "a.en",
        tgt=corpus / "a.de",
        out=out,
        settings=[change.removeprefix("--set=") for change in changes(**settings)],
        progress=progress,
        should_stop=should_stop,
    )
    assert outcome.reason is None
    return out
