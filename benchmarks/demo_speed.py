"""How long the demo's model takes to learn its corpus, beside the paper's model of that size.

    python benchmarks/demo_speed.py --to DIR [--rounds 2] [--rows demo paper ...]

Each row is trained by `transduce train` in a process of its own, all rows in turn, and translates
the 500 test sentences. Seconds are those of training alone, by the run's own clock; CPU seconds
are the whole command's. The claim: the row `demo` has a BLEU of at least 95 and takes at most half
the CPU time of `paper`, which is how the demo was trained before. The exit code is 1 if it fails.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from process_tree import watch

from transduce.cli.demo import PRESET, STEPS, settings_of
from transduce.models.model_files import trained_so_far

WANTED_BLEU, WANTED_SHARE = 95.0, 0.5
PAPER: Mapping[str, Any] = {
    "preset": "tiny",
    "training": {"warmup_steps": 150, "learning_rate": 0.004, "steps": 1500},
    "run": {"checkpoint_steps": 150},
}
"""The paper's model, at the rate and number of steps that were chosen for it."""


def main() -> None:
    """Train all rows in turn, print the table, and check the claim."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--to", type=Path, required=True, metavar="DIR")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rows", nargs="+", default=list(rows(Path())), choices=rows(Path()))
    given = parser.parse_args()
    text = given.to / "text"
    run("data", "demo", "--to", str(text))
    found: dict[str, list[dict[str, float]]] = {name: [] for name in given.rows}
    for seed in range(1, given.rounds + 1):
        for name, results in found.items():
            results.append(measured(given.to / f"{name}.{seed}", rows(text)[name], text, seed))
            print(name, seed, json.dumps(results[-1]), flush=True)
    print("\n| row | seconds | CPU s | BLEU |\n|---|--:|--:|---|")
    for name, results in found.items():
        seconds, cpu_s = (median(one[key] for one in results) for key in ("seconds", "cpu_s"))
        print(f"| {name} | {seconds:.0f} | {cpu_s:.0f} | {[one['bleu'] for one in results]} |")
    if {"demo", "paper"} <= found.keys():
        sys.exit(not claim_holds(found["demo"], found["paper"]))


def rows(text: Path) -> dict[str, dict[str, Any]]:
    """Return the settings of each row; those of the demo are its own."""
    demo = settings_of(text, steps=STEPS)
    shared = {"data": demo["data"], "model": demo["model"]}
    paper = {
        **shared,
        **PAPER,
        "training": {**demo["training"], **PAPER["training"]},
        "run": {**demo["run"], **PAPER["run"]},
    }
    half = {**paper["training"], "steps": 750, "warmup_steps": 75}
    return {
        "demo": {"preset": PRESET, **demo},
        "paper": paper,
        "paper, half the steps": {**paper, "training": half},
    }


def measured(folder: Path, row: dict[str, Any], text: Path, seed: int) -> dict[str, float]:
    """Train one row, and score it on the test set."""
    recipe = folder.with_suffix(".yaml")
    preset = row.pop("preset")
    recipe.write_text(yaml.safe_dump(row), encoding="utf-8")
    words = ["train", str(recipe), "--preset", preset, "--out", str(folder), "--seed", str(seed)]
    with folder.with_suffix(".log").open("wb") as log:
        trained = watch(subprocess.Popen(command(*words), stderr=log, stdout=log))
    if trained.code:
        sys.exit(f"{' '.join(words)} failed: see {folder.with_suffix('.log')}")
    scores = folder / "scores.json"
    run("evaluate", str(folder), "--src", str(text / "test.en"), "--ref", str(text / "test.de"),
        "--json", str(scores))  # fmt: skip
    steps, seconds = trained_so_far(folder)
    found = json.loads(scores.read_text(encoding="utf-8"))["scores"]
    bleu = next(one["score"] for one in found if one["name"] == "BLEU")
    return {"steps": steps, "seconds": seconds, "cpu_s": trained.cpu_s, "bleu": round(bleu, 2)}


def claim_holds(demo: list[dict[str, float]], paper: list[dict[str, float]]) -> bool:
    """Say whether the demo is as good as it has to be, in the time that it may take."""
    bleu = min(one["bleu"] for one in demo)
    share = median(one["cpu_s"] for one in demo) / median(one["cpu_s"] for one in paper)
    print(f"the demo: BLEU at least {bleu:.2f}, in {share:.2f} of the paper's model's CPU time")
    return bleu >= WANTED_BLEU and share <= WANTED_SHARE


def run(*words: str) -> None:
    """Run one of our commands, which has to succeed."""
    subprocess.run(command(*words), check=True, stdout=subprocess.DEVNULL)


def command(*words: str) -> list[str]:
    """Return the command with these words."""
    return [sys.executable, "-m", "transduce", *words]


if __name__ == "__main__":
    main()
