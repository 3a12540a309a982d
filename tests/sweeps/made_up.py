"""Folders of sweeps whose runs were never trained."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transduce.config.load import to_yaml
from transduce.config.schema import Config
from transduce.sweeps.file import SweepFile
from transduce.sweeps.plan import SweepPlan, SweepRun, make_plan
from transduce.training.run.events import Finished, Scored, Started, Stepped
from transduce.training.run.journal import Journal

REFERENCES = [f"der {noun} sieht {number} alte Häuser am Fluss ." for noun in ("Mann", "Hund")
              for number in ("zwei", "drei", "vier", "fünf", "sechs")]  # fmt: skip


def sweep(folder: Path, **file: Any) -> SweepPlan:
    """Plan a sweep over the preset tiny, with one test set named `seen`."""
    folder.mkdir(parents=True, exist_ok=True)
    for side in ("src", "tgt"):
        (folder / f"seen.{side}").write_text("".join(f"{line}\n" for line in REFERENCES))
    tree = {
        "base": "tiny",
        "settings": {"data.src": "a.en", "data.tgt": "a.de", "model.vocab_size": 400},
        "test": {"src": str(folder / "seen.src"), "tgt": str(folder / "seen.tgt")},
        "budget": {"steps": 100},
    }
    return make_plan(SweepFile.from_tree(tree | file), folder)


def with_errors(count: int) -> list[str]:
    """Return the references with a wrong word in the first `count` lines."""
    return [
        line.replace("alte", "neue") if place < count else line
        for place, line in enumerate(REFERENCES)
    ]


def scored(step: int, loss: float, bleu: float) -> Scored:
    return Scored(
        step, loss, math.exp(loss), best=True, seconds=30.0 + step, metric="BLEU", score=bleu,
        signature="dev signature",
    )  # fmt: skip


def make_run(
    run: SweepRun,
    *,
    loss: float = 2.0,
    bleu: float = 20.0,
    parameters: int = 1_000_000,
    finished: bool = True,
    hypotheses: Sequence[str] | None = None,
    end_loss: float | None = None,
) -> None:
    """Write what a run leaves in its folder."""
    run.folder.mkdir(parents=True)
    (run.folder / "config.yaml").write_text(to_yaml(Config.from_tree(run.request().settings())))
    with Journal(run.folder / "journal.jsonl") as journal:
        journal(Started(0, 10, parameters, "cpu", "float32", 1, 0.0))
        journal(Stepped(50, 1, 0.5, 3.0, 1e-4, 1.0, 5_000, 1000.0, 45.0, 0.5))
        journal(scored(50, loss, bleu))
        if finished:
            journal(Stepped(100, 2, 0.5, 3.0, 1e-4, 1.0, 10_000, 1000.0, 80.0, 1.0))
            end = Finished(100, "all steps were made", "the last", 90.0)
            if end_loss is not None:
                end = replace(
                    end, loss=end_loss, metric="BLEU", score=bleu + 1, signature="dev signature"
                )
            journal(end)
    if hypotheses is not None:
        (run.folder / "test.seen.hyp").write_text("".join(f"{line}\n" for line in hypotheses))
