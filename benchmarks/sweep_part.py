"""A part of a sweep, for short runs on a GPU: some rows for some minutes, then their records.

    python benchmarks/sweep_part.py recipes/sweeps/table3.yaml --out sweeps/first --minutes 22
        --records records/first --corpora DATA --seed 1 --only base --only 'base_h*' [--at-once 2]

After `--minutes` the sweep is asked to stop, as it is by Ctrl-C or a SIGTERM to the process group.
However it ended, the small files that reports read are then in the folder `--records`; parts are
put together by `transduce sweep --report records/first --report records/second --out DIR`.

Texts in `data/` are read from the folder `--corpora`. With `--seed`, rows that have seeds of their
own have this one alone, so that parts can share them.
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transduce.config.load import read_yaml

TEXTS = "data/"
STOP_S = 120.0
"""Seconds that a sweep has to save its checkpoints and to write its results."""
SWEEP = (sys.executable, "-m", "transduce", "sweep")


def part_of(tree: Any, corpora: Path, seed: int | None = None) -> Any:
    """Return a sweep file's content with its texts in another folder, and perhaps one seed."""
    if isinstance(tree, dict):
        changed = {name: part_of(value, corpora, seed) for name, value in tree.items()}
        if seed is not None and isinstance(tree.get("seeds"), list):
            changed["seeds"] = [seed]
        return changed
    if isinstance(tree, list):
        return [part_of(value, corpora, seed) for value in tree]
    if isinstance(tree, str) and tree.startswith(TEXTS):
        return str(corpora / tree.removeprefix(TEXTS))
    return tree


def write_part(file: Path, into: Path, corpora: Path, seed: int | None = None) -> Path:
    """Write the file of a part, which is JSON and so YAML."""
    into.parent.mkdir(parents=True, exist_ok=True)
    into.write_text(json.dumps(part_of(read_yaml(file), corpora, seed), indent=1) + "\n")
    return into


def compute(command: Sequence[str], seconds: float) -> str:
    """Run a sweep and return how it ended; ask it to stop when the time is over."""
    process = subprocess.Popen(command)
    ended = ""

    def note_stop(_number: int, _frame: object) -> None:
        nonlocal ended  # the sweep has the signal too: a second one would end it at once
        ended = "stopped on request"

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, note_stop)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        ended = f"stopped after {seconds / 60:g} minutes"
        process.send_signal(signal.SIGTERM)
    try:
        code = process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    return ended or (f"exit code {code}" if code else "all runs are finished")


def record(sweep: Path, records: Path) -> int:
    """Copy the records of all runs into a new folder; return the exit code."""
    shutil.rmtree(records, ignore_errors=True)
    records.parent.mkdir(parents=True, exist_ok=True)
    command = [*SWEEP, "--report", str(sweep), "--out", str(records)]
    return subprocess.run(command, check=False).returncode


def main() -> None:
    """Compute a part, and write its records."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--corpora", type=Path, default=Path("data"))
    parser.add_argument("--seed", type=int)
    parser.add_argument("--only", action="append", default=[], metavar="ROW")
    parser.add_argument("--at-once", type=int)
    args = parser.parse_args()
    file = write_part(args.file, args.out.with_suffix(".yaml"), args.corpora, args.seed)
    command = [*SWEEP, str(file), "--out", str(args.out)]
    command += [word for row in args.only for word in ("--only", row)]
    command += ["--at-once", str(args.at_once)] if args.at_once else []
    print(compute(command, 60 * args.minutes), flush=True)
    sys.exit(record(args.out, args.records))


if __name__ == "__main__":
    main()
