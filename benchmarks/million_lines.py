"""A million lines in shards: undisturbed, and killed again and again. Are the bytes the same?

    python benchmarks/million_lines.py MODEL --to DIR [--lines 1000000] [--src FILE] [--kills 10]
        [--engine ctranslate2] [--beam 1] [--device cpu] [--threads 2] [--seed 1]
        [--ray N [--kill-node]]

- The text, DIR/text.en.gz: sentences of the demo's grammar, or the lines of FILE again and again.
- `transduce translate MODEL text.en.gz --out DIR/undisturbed/`: lines/s, and the memory of the
  process and all below it by tenth of the time.
- The same command with another folder, killed by SIGKILL at random moments and given again.
- With --ray, the same on so many nodes on this machine; with --kill-node, one of them is killed.

The claims: every folder has the same bytes; on the CPU, memory is at most 1.2 GiB at any moment,
and in the last tenth at most 5 % more than in the second. The exit code is 1 if one fails. What is
in DIR already is used again, so a benchmark that was stopped goes on.
"""

import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from hashlib import blake2b
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

from process_tree import WatchedRun, resident_bytes, watch

from transduce.data.corpus import read_lines
from transduce.grammar import generate

MOST_MIB = 1.2 * 1024
GROWTH = 0.05
TEXT_SEED = 7
KILLED_FROM, KILLED_TO = 0.1, 0.7
"""A node is killed once a random share of the parts between these is done."""


def main() -> None:
    """Do all runs, print the figures as one JSON object, and check the claims."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--to", type=Path, required=True, metavar="DIR")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--src", type=Path)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--engine", default="ctranslate2")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shard-lines", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="of the moments of kills")
    parser.add_argument("--ray", type=int, default=0, metavar="N")
    parser.add_argument("--kill-node", action="store_true")
    given = parser.parse_args()
    given.to.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {"lines": given.lines, "undisturbed": undisturbed(given)}
    same = []
    if given.kills:
        figures["killed"] = killed(given, figures["undisturbed"]["seconds"])
        same.append("killed")
    if given.ray:
        figures["on_ray"] = on_ray(given)
        same.append("on_ray")
    wanted = digest(given.to / "undisturbed")
    claims = {f"{name}: same bytes": digest(given.to / name) == wanted for name in same}
    if given.device == "cpu":
        tenths = figures["undisturbed"]["mib_by_tenth"]
        claims["at most 1.2 GiB"] = max(tenths) <= MOST_MIB
        claims["memory does not grow"] = tenths[-1] <= (1 + GROWTH) * tenths[1]
    print(json.dumps({**figures, "claims": claims}, indent=2))
    sys.exit(not all(claims.values()))


def undisturbed(given: argparse.Namespace) -> dict[str, Any]:
    """Translate all lines without a kill, unless an earlier run of this benchmark has."""
    known = given.to / "undisturbed.json"
    if not known.exists():
        run = watch(started(given, "undisturbed"))
        check(run)
        figures = {
            "seconds": round(run.seconds, 1),
            "cpu_s": round(run.cpu_s, 1),
            "lines_per_s": round(given.lines / run.seconds, 1),
            "peak_mib": round(run.peak_mib),
            "mib_by_tenth": run.by_tenth(),
        }
        known.write_text(json.dumps(figures), encoding="utf-8")
        print(json.dumps(figures), flush=True)
    return dict(json.loads(known.read_text(encoding="utf-8")))


def killed(given: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """Kill the command at random moments of the time it takes, and let the last one finish."""
    draw = random.Random(given.seed)  # noqa: S311 - moments, not secrets
    moments = sorted(draw.uniform(0, seconds) for _ in range(given.kills))
    lives = [after - before for before, after in zip([0.0, *moments], moments, strict=False)]
    began, peak, parts = time.monotonic(), 0.0, []
    for life in lives:
        run = watch(started(given, "killed"), life_s=life)
        peak = max(peak, run.peak_mib)
        parts.append(parts_of(given.to / "killed"))
        print(f"killed after {run.seconds:.1f} s, {parts[-1]:,} parts", flush=True)
    last = watch(started(given, "killed"))
    check(last)
    return {
        "seconds": round(time.monotonic() - began, 1),
        "parts_at_each_kill": parts,
        "last_start_s": round(last.seconds, 1),
        "peak_mib": round(max(peak, last.peak_mib)),
    }


def on_ray(given: argparse.Namespace) -> dict[str, Any]:
    """Translate on nodes of this machine, one of which may die halfway."""
    from ray.cluster_utils import Cluster

    quick = {"worker_niceness": 0}
    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": quick}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes = [cluster.add_node(num_cpus=1) for _ in range(given.ray)]
    cluster.wait_for_nodes()
    share = random.Random(given.seed).uniform(KILLED_FROM, KILLED_TO)  # noqa: S311
    due = share * parts_of(given.to / "undisturbed")
    found: dict[str, Any] = {}

    def kill_when_due() -> None:
        done = parts_of(given.to / "on_ray")
        if given.kill_node and nodes and len(nodes) == given.ray and done >= due:
            cluster.remove_node(nodes.pop(), allow_graceful=False)
            found["parts_at_the_death"] = done

    try:
        run = watch(
            started(given, "on_ray", "--on", cluster.address),
            memory_of=lambda: resident_bytes(os.getpid()) - own_bytes(),
            on_look=kill_when_due,
        )
        check(run)
    finally:
        cluster.shutdown()
    return {
        **found,
        "seconds": round(run.seconds, 1),
        "lines_per_s": round(given.lines / run.seconds, 1),
        "peak_mib_of_all": round(run.peak_mib),
        "mib_by_tenth": run.by_tenth(),
    }


def started(given: argparse.Namespace, name: str, *more: str) -> subprocess.Popen[bytes]:
    """Start the command, always the same."""
    words = [sys.executable, "-m", "transduce", "translate", str(given.model), str(text_of(given))]
    words += ["--out", f"{given.to / name}/", "--device", given.device, "--beam", str(given.beam)]
    words += ["--engine", given.engine, "--shard-lines", str(given.shard_lines), *more]
    threads = {"OMP_NUM_THREADS": str(given.threads)}
    with (given.to / f"{name}.log").open("ab") as log:
        return subprocess.Popen(words, stderr=log, env={**os.environ, **threads})  # noqa: TID251


def text_of(given: argparse.Namespace) -> Path:
    """Return the text, written once."""
    path: Path = given.to / "text.en.gz"
    if not path.exists():
        making = path.with_suffix(".making")
        with gzip.open(making, "wt", compresslevel=1, encoding="utf-8") as stream:
            stream.writelines(f"{line}\n" for line in islice(lines_of(given), given.lines))
        making.rename(path)
    return path


def lines_of(given: argparse.Namespace) -> Iterator[str]:
    """Stream sentences of the grammar, or the lines of a file again and again."""
    if given.src is None:
        return (pair.src for pair in generate(given.lines, seed=TEXT_SEED))
    return chain.from_iterable(read_lines(path) for path in repeat(given.src))


def parts_of(folder: Path) -> int:
    """Count the parts that are done."""
    return len(list(folder.glob("part-*.txt")))


def digest(folder: Path) -> str:
    """Digest all parts, in order."""
    state = blake2b(digest_size=16)
    for part in sorted(folder.glob("part-*.txt")):
        state.update(part.read_bytes())
    return state.hexdigest()


def own_bytes() -> int:
    """Return the memory of this process alone."""
    text = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
    return 1024 * next(int(line.split()[1]) for line in text.splitlines() if line[:4] == "Pss:")


def check(run: WatchedRun) -> None:
    """Stop if a command failed."""
    if run.code:
        sys.exit(f"the command failed with {run.code}: see the log in --to")


if __name__ == "__main__":
    main()
