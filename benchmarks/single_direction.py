"""Train one direction alone, on as many tokens as it had in a model of several languages.

    python benchmarks/single_direction.py runs/many fr-nl data/europarl-7way --out runs/fr-nl
        [--recipe recipes/comparison/europarl_7way_single.yaml] [--set NAME=VALUE …] [--device auto]

runs/many is a run that is over. Each of its directions had the same share of its tokens, which the
single model is given too, in smaller batches: it would make too few steps with the large ones. The
folder has train.LANG or train.LANG.xz, dev.LANG and test.LANG; the model reads its two languages
alone, and learns their subwords. `benchmarks/compare_directions.py` compares the scores.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from transduce.config.load import load_config
from transduce.data.languages.corpora import trained_directions
from transduce.models.folder import load_settings
from transduce.training.run.events import Finished
from transduce.training.run.journal import read_journal

SCORES = 6
"""How often the single model is scored, and its weights kept."""


def main() -> None:
    """Work out the steps, and train."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("many", type=Path)
    parser.add_argument("direction")
    parser.add_argument("texts", type=Path, help="folder of the texts")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--recipe", type=Path, default="recipes/comparison/europarl_7way_single.yaml"
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    batch_tokens = load_config(given.recipe, given.set).training.batch_tokens
    steps = steps_of(given.many, batch_tokens)
    settings = [
        f"data.directions=[{given.direction}]",
        f"training.warmup_steps={max(1, steps // 10)}",
        f"run.checkpoint_steps={max(1, steps // SCORES)}",
        f"run.first_score_steps={max(1, steps // SCORES)}",
        *given.set,
    ]
    command = [sys.executable, "-m", "transduce", "train", str(given.recipe)]
    command += ["--out", str(given.out), "--steps", str(steps), "--device", given.device]
    for language in given.direction.split("-"):
        files = {name: text_of(given.texts, f"{name}.{language}") for name in ("train", "dev")}
        command += ["--text", files["train"], "--dev-text", files["dev"]]
        command += ["--held-out", text_of(given.texts, f"test.{language}")]
    command += [word for setting in settings for word in ("--set", setting)]
    print(f"{given.direction}: {steps:,} steps of {batch_tokens:,} tokens a side", flush=True)
    sys.exit(subprocess.run(command, check=False).returncode)


def text_of(folder: Path, name: str) -> str:
    """Return the file of this name, which may be compressed."""
    packed = folder / f"{name}.xz"
    return str(packed if packed.exists() else folder / name)


def steps_of(many: Path, batch_tokens: int) -> int:
    """Return in how many steps of so many tokens one direction has its share of the run's."""
    config = load_settings(many)
    events = [one for one in read_journal(many / "journal.jsonl") if isinstance(one, Finished)]
    if not events:
        sys.exit(f"{many} is not over: train it to its end first")
    tokens = events[-1].step * config.training.batch_tokens
    return max(1, round(tokens / len(trained_directions(config.data)) / batch_tokens))


if __name__ == "__main__":
    main()
