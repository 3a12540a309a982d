"""A sweep with one run after another and with as many at once as it decides: times and the GPU.

    python benchmarks/sweep_at_once.py recipes/sweeps/table3_small.yaml --corpora data
        --out runs/at_once --runs 12 [--tokens 12000000] [--at-once auto 1]

Trains the first rows of the file, each with one seed, once for each number of `--at-once`, in this
order; `auto` lets the sweep decide. Each sweep prepares the text and compiles by itself: none finds
the kernels of another. nvidia-smi is asked each second how busy the GPU is: the share of the time
in which a kernel ran, and its power. All sweeps must have trained the same steps on the same
tokens; how far their scores are apart is printed. OUT/at_once.json has all figures.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sweep_part import SWEEP, part_of

from transduce.config.load import read_yaml
from transduce.sweeps.plan import read_plan
from transduce.sweeps.results import read_results

AUTO = "auto"
QUERY = "utilization.gpu,power.draw,memory.used"
KERNELS = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
"""Where compiled kernels are kept."""
COMPUTING = re.compile(r"(\d+) computing")


@dataclass(frozen=True)
class Score:
    """What a run did and reached."""

    steps: int
    tokens: int
    perplexity: float
    tests: dict[str, float]


@dataclass(frozen=True)
class Sweep:
    """A sweep with a number of runs at once."""

    at_once: str
    seconds: float
    most_at_once: int  # seen twice a minute
    busy: float | None  # share of the time; None: not known
    watts: float | None
    memory_mib: float | None  # the most
    runs: dict[str, Score]


def shortened(file: Path, corpora: Path, runs: int, tokens: int | None) -> Any:
    """Return a sweep file's content with so many rows, one seed each, and another budget."""
    tree = part_of(read_yaml(file), corpora, 1)
    tree["variations"] = tree["variations"][:runs]
    return tree | ({"budget": {"tokens": tokens}} if tokens else {})


@contextmanager
def watching_gpu(samples: list[tuple[float, float, float]]) -> Iterator[None]:
    """Note the GPU's use, power and memory each second; nothing without nvidia-smi."""
    command = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits", "-l", "1"]
    with tempfile.TemporaryFile("w+") as written:  # a pipe would be full after 45 minutes
        try:
            process = subprocess.Popen(command, stdout=written)
        except FileNotFoundError:
            yield
            return
        try:
            yield
        finally:
            process.terminate()
            process.wait()
            written.seek(0)
            for line in written:
                with suppress(ValueError):
                    use, watts, memory = map(float, line.split(","))
                    samples.append((use, watts, memory))


def sweep(file: Path, out: Path, at_once: str) -> Sweep:
    """Compute all runs."""
    folder, samples = out / f"at_once_{at_once}", list[tuple[float, float, float]]()
    out.mkdir(parents=True, exist_ok=True)
    number = [] if at_once == AUTO else ["--at-once", at_once]
    kernels = {name: str(folder / "kernels" / name) for name in KERNELS}
    log = out / f"at_once_{at_once}.log"
    began = time.monotonic()
    with log.open("w") as stream, watching_gpu(samples):
        subprocess.run(
            [*SWEEP, str(file), "--out", str(folder / "sweep"), *number],
            check=True,
            stdout=stream,
            stderr=stream,
            env=os.environ | kernels,  # noqa: TID251 - passed on
        )
    seconds = time.monotonic() - began
    counts = [int(count) for count in COMPUTING.findall(log.read_text())]
    use, watts, memory = zip(*samples, strict=True) if samples else ((), (), ())
    return Sweep(
        at_once=at_once,
        seconds=seconds,
        most_at_once=max(counts, default=1),
        busy=statistics.mean(use) / 100 if use else None,
        watts=statistics.mean(watts) if watts else None,
        memory_mib=max(memory, default=None),
        runs=scores(folder / "sweep"),
    )


def scores(folder: Path) -> dict[str, Score]:
    """Return the scores of all runs by their names; raise if one is not finished."""
    found = {}
    for run in read_results(read_plan(folder)).runs:
        if run.status != "finished" or run.dev is None:
            raise SystemExit(f"{run.planned.name}: {run.state}")
        tests = {name: test.metric.score for name, test in run.tests.items()}
        found[run.planned.name] = Score(run.steps, run.tokens, run.dev.perplexity, tests)
    return found


def differences(one: dict[str, Score], other: dict[str, Score]) -> str:
    """Say how far two tables are apart; raise if they are not of the same training."""
    for name in one.keys() | other.keys():
        here, there = one.get(name), other.get(name)
        if (
            here is None
            or there is None
            or (here.steps, here.tokens) != (there.steps, there.tokens)
        ):
            raise SystemExit(f"{name} is not the same run in both sweeps: {here}, {there}")
    perplexity = max(abs(one[n].perplexity / other[n].perplexity - 1) for n in one)
    tests = [abs(one[n].tests[t] - other[n].tests[t]) for n in one for t in one[n].tests]
    return (
        f"{len(one)} runs with the same steps and tokens; at most {perplexity:.2%} apart in "
        f"perplexity, {max(tests, default=0):.2f} in the scores of test sets"
    )


def line(found: Sweep) -> str:
    """Describe a sweep."""
    parts = [f"at once {found.at_once}: {found.seconds:.0f} s, up to {found.most_at_once} at once"]
    if found.busy is not None:
        parts.append(f"GPU busy {found.busy:.0%}, {found.watts:.0f} W, {found.memory_mib:,.0f} MiB")
    return ", ".join(parts)


def main() -> None:
    """Compute all sweeps, and compare each with the last."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--corpora", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--tokens", type=int, help="of each run; if not given, as in the file")
    parser.add_argument("--at-once", nargs="+", default=[AUTO, "1"])
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "sweep.yaml"
    file.write_text(json.dumps(shortened(args.file, args.corpora, args.runs, args.tokens)) + "\n")
    found = compute(file, args.out, args.at_once)
    for one in found[:-1]:
        print(
            f"{found[-1].seconds / one.seconds:.2f} times as fast: {line(one)}; {line(found[-1])}"
        )
        print(differences(one.runs, found[-1].runs))


def compute(file: Path, out: Path, numbers: Sequence[str]) -> list[Sweep]:
    """Compute the sweeps, and write down what is known after each."""
    found: list[Sweep] = []
    for at_once in numbers:
        found.append(sweep(file, out, at_once))
        print(line(found[-1]), flush=True)
        text = json.dumps([asdict(one) for one in found], indent=1)
        (out / "at_once.json").write_text(f"{text}\n")
    return found


if __name__ == "__main__":
    main()
