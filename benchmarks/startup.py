"""How quickly `transduce --help` prints, beside the imports it cannot do without.

    python benchmarks/startup.py

The claim: at most twice the time of `python -c "import typer, rich"`. Runs alternate, so that a
noisy machine disturbs both alike, and the ratio is that of the medians.
"""

import statistics
import subprocess
import sys
import time

RUNS = 30
COMMANDS = {
    'python -c "import typer, rich"': [sys.executable, "-c", "import typer, rich"],
    "transduce --help": [sys.executable, "-m", "transduce", "--help"],
    'python -c "import torch"': [sys.executable, "-c", "import torch"],
}


def seconds(command: list[str]) -> float:
    """Time one run, from start to exit."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> None:
    """Print the median of each command and the ratio that is claimed."""
    for command in COMMANDS.values():
        seconds(command)  # fills the file cache
    times = {
        name: statistics.median(run)
        for name, run in zip(
            COMMANDS,
            zip(*([seconds(c) for c in COMMANDS.values()] for _ in range(RUNS)), strict=True),
            strict=True,
        )
    }
    for name, median in times.items():
        print(f"{1000 * median:7.0f} ms  {name}")
    imports, help_, _ = times.values()
    ratio = help_ / imports
    print(f"transduce --help takes {ratio:.2f} times the imports alone (claim: at most 2)")
    sys.exit(ratio > 2)


if __name__ == "__main__":
    main()
