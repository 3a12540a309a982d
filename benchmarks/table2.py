"""Table 2 on Multi30k, all of it: speeds, tries, and two tables for each corpus.

    python benchmarks/table2.py --corpora data --out runs/table2 --at-once 10 --share 10

1. Each system trains for a few epochs: its speed turns minutes into epochs, so that compiling and
   scoring do not count.
2. Each system has four tries with the minutes, two peak rates and two rates of dropout, on the text
   in published subwords. The highest development BLEU chooses, and that try is the system's row.
3. With the settings chosen, each system trains on the raw text with the minutes, and on both texts
   with the operations of the system that did the fewest in its minutes.

A run that is there is not made again, so the command can be repeated. With `--share`, each run has
that many per cent of the multiprocessors of a GPU (NVIDIA MPS, which must be running), whatever
else runs; so equal minutes are equal. Check what a run learns under such a limit before you trust
it: wider Transformers did not (docs/EXPERIMENTS.md, "A share of the multiprocessors").
"""

import argparse
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from compare_systems import RECORD, read, rows_of, table

HERE = Path(__file__).parent
RECIPES = HERE.parent / "recipes/comparison"
TRIES: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "transformer": ((0.002, 0.003), (0.2, 0.3)),
    "rnn": ((0.002, 0.003), (0.3, 0.4)),
    "gnmt": ((0.002, 0.003), (0.2, 0.3)),
    "conv_s2s": ((0.002, 0.004), (0.2, 0.3)),
    "bytenet": ((0.0015, 0.003), (0.4, 0.5)),
    "moe": ((0.001, 0.002), (0.2, 0.3)),
}
"""Two peak rates and two rates of dropout for each system, around what first trials found."""
TRIED_ON, ALSO_ON = "multi30k_bpe", "multi30k"
SPEED_EPOCHS = 6


@dataclass(frozen=True)
class Run:
    """One training of one system."""

    system: str
    data: str
    out: Path
    budget: tuple[str, ...]  # options of compare_systems.py
    settings: tuple[str, ...] = ()

    def command(self, corpora: Path, share: int | None) -> list[str]:
        """Return the command line."""
        limited = ["env", f"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={share}"] if share else []
        recipe = RECIPES / f"{self.system}.yaml"
        settings = [part for setting in self.settings for part in ("--set", setting)]
        return [
            *(*limited, sys.executable, str(HERE / "compare_systems.py"), "train", str(recipe)),
            *("--data", self.data, "--corpora", str(corpora), "--out", str(self.out)),
            *self.budget,
            *settings,
        ]


def train_all(runs: Iterable[Run], args: argparse.Namespace) -> None:
    """Train what is not there yet, several at once; one that fails is told at the end."""
    missing = [run for run in runs if not (run.out / RECORD).exists()]

    def train(run: Run) -> int:
        run.out.parent.mkdir(parents=True, exist_ok=True)
        log = run.out.with_name(f"{run.out.name}.log")
        with log.open("w") as output:
            command = run.command(args.corpora, args.share)
            ended = subprocess.run(command, stdout=output, stderr=output, check=False)
        last = (log.read_text().splitlines() or [""])[-1]
        sys.stdout.write(f"{run.out}: {last}\n")
        sys.stdout.flush()
        return ended.returncode

    with ThreadPoolExecutor(args.at_once) as pool:
        codes = list(pool.map(train, missing))
    if failed := [str(run.out) for run, code in zip(missing, codes, strict=True) if code]:
        raise SystemExit(f"failed, see the .log beside each: {', '.join(failed)}")


def speed_run(system: str, out: Path) -> Run:
    """Return a short run that shows a system's speed."""
    settings = ("run.checkpoint_steps=1000000", "run.score_sentences=0", "run.choose_by=loss")
    return Run(system, TRIED_ON, out / "speed" / system, ("--epochs", str(SPEED_EPOCHS)), settings)


def tries_of(system: str, out: Path, minutes: float) -> list[Run]:
    """Return four runs with the minutes at the system's own speed."""
    budget = _minutes(system, out, minutes)
    rates, dropouts = TRIES[system]
    return [
        Run(
            system,
            TRIED_ON,
            out / "tries" / f"{system}-{rate}-{p_drop}",
            budget,
            (f"training.learning_rate={rate}", f"model.p_drop={p_drop}"),
        )
        for rate in rates
        for p_drop in dropouts
    ]


def _minutes(system: str, out: Path, minutes: float) -> tuple[str, ...]:
    speed = read(speed_run(system, out).out).tokens_per_s
    return ("--minutes", str(minutes), "--speed", f"{speed:.0f}")


def chosen(system: str, out: Path, minutes: float) -> Run:
    """Return the try with the highest development BLEU."""
    return max(tries_of(system, out, minutes), key=lambda run: read(run.out).best)


def final_runs(best: dict[str, Run], out: Path, minutes: float) -> list[Run]:
    """Return the runs on the raw text, and those with equal operations on both."""
    operations = f"{min(read(run.out).operations for run in best.values()):.4e}"
    return [
        Run(system, data, out / f"{name}-{data}" / system, budget, run.settings)
        for system, run in best.items()
        for name, data, budget in (
            ("minutes", ALSO_ON, _minutes(system, out, minutes)),
            ("operations", TRIED_ON, ("--operations", operations)),
            ("operations", ALSO_ON, ("--operations", operations)),
        )
    ]


def main() -> None:
    """Make all runs, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=1.5)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--share", type=int, help="per cent of a GPU for each run")
    parser.add_argument("--systems", nargs="+", choices=TRIES, default=list(TRIES))
    parser.add_argument("--only-speed", action="store_true", help="stop after the first part")
    args = parser.parse_args()
    out, minutes = args.out, args.minutes
    train_all([speed_run(system, out) for system in args.systems], args)
    if args.only_speed:
        return
    train_all([run for s in args.systems for run in tries_of(s, out, minutes)], args)
    best = {system: chosen(system, out, minutes) for system in args.systems}
    train_all(final_runs(best, out, minutes), args)
    tables = {f"the same minutes, {TRIED_ON}": [run.out for run in best.values()]}
    for run in final_runs(best, out, minutes):
        tables.setdefault(run.out.parent.name, []).append(run.out)
    for title, folders in tables.items():
        sys.stdout.write(f"\n{title}\n\n{table(rows_of(folders))}\n")


if __name__ == "__main__":
    main()
