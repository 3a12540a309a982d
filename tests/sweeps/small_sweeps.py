"""Sweeps of a few seconds: tiny models, a few steps."""

import json
from pathlib import Path
from typing import Any

from tests.system.small_runs import MAX_POSITIONS, write_corpus
from transduce.sweeps.file import SweepFile
from transduce.sweeps.plan import SweepPlan, make_plan

STEPS = 12


def write_texts(folder: Path) -> Path:
    """Write a corpus, and a test set of two sentences."""
    write_corpus(folder)
    for side in ("en", "de"):
        lines = (folder / f"a.{side}").read_text(encoding="utf-8").splitlines()[:2]
        (folder / f"test.{side}").write_text("".join(f"{line}\n" for line in lines))
    return folder


def sweep_tree(corpus: Path, **entries: Any) -> dict[str, Any]:
    """Return a sweep: a base and a row with wider layers."""
    tree = {
        "base": "tiny",
        "settings": {
            "data": {"src": str(corpus / "a.en"), "tgt": str(corpus / "a.de"), "dev_pairs": 4},
            "model": {
                "vocab_size": 300,
                "max_positions": MAX_POSITIONS,
                "n_layers": 1,
                "d_model": 16,
                "d_ff": 32,
                "h": 2,
            },
            "training": {"batch_tokens": 300, "schedule": "linear", "warmup_steps": 4},
            "run": {
                "checkpoint_steps": 6,
                "average": 2,
                "score_sentences": 1,
                "choose_by": "loss",
                "device": "cpu",  # where the same numbers come out every time
            },
        },
        "variations": [{"set": {"model.d_ff": 64}}],
        "budget": {"steps": STEPS},
        "test": {"src": str(corpus / "test.en"), "tgt": str(corpus / "test.de")},
        "beam": 2,
    }
    return tree | entries


def sweep_file(path: Path, corpus: Path, **entries: Any) -> Path:
    """Write a sweep file; JSON is YAML."""
    path.write_text(json.dumps(sweep_tree(corpus, **entries)), encoding="utf-8")
    return path


def small_plan(corpus: Path, folder: Path, **entries: Any) -> SweepPlan:
    """Plan a small sweep."""
    return make_plan(SweepFile.from_tree(sweep_tree(corpus, **entries)), folder)


def products(folder: Path) -> dict[str, bytes]:
    """Return what the runs of a sweep end with: weights and test translations."""
    found = [*folder.glob("runs/*/*/model.safetensors"), *folder.glob("runs/*/*/test.*.hyp")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(found)}
