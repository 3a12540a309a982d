"""Text and settings of models that train in a second or two."""

from collections.abc import Iterable
from pathlib import Path

from tests.system.small_runs import SETTINGS as TINY
from tests.system.small_runs import short_pairs

SETTINGS = [
    f"{name}={value}"
    for name, value in (
        TINY
        | {
            "model.d_model": 32,
            "model.d_ff": 64,
            "training.steps": 120,
            "training.warmup_steps": 12,
            "run.checkpoint_steps": 120,
            "run.average": 1,
            "run.score_sentences": 0,
        }
    ).items()
]
"""Of a model that ends most of its sentences."""

STUDENT = [
    f"--set={name}={value}"
    for name, value in (
        TINY | {"training.steps": 12, "run.checkpoint_steps": 6, "run.score_sentences": 0}
    ).items()
    if name != "model.vocab_size"
]
"""Of a model that has learnt little, with the vocabulary of its teacher."""


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_text(folder: Path) -> Path:
    pairs = short_pairs(300, seed=4)
    seen = {text for pair in pairs for text in pair}
    others = [pair for pair in short_pairs(200, seed=9) if seen.isdisjoint(pair)][:12]
    for name, some in (("a", pairs), ("t", others)):
        write_lines(folder / f"{name}.en", (pair.src for pair in some))
        write_lines(folder / f"{name}.de", (pair.tgt for pair in some))
    write_lines(folder / "d.de", (pair.tgt for pair in pairs[:100]))
    return folder
