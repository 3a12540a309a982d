"""Where the time of a beam search goes: a profile of one search, by kernel.

    python benchmarks/profile_search.py [--device cuda] [--shape base] [--sentences 4096]
        [--out FILE.json] [--rows 30]

The search is that of `benchmarks/decode_throughput.py`: random weights, beam 4, 30 tokens in and
30 out, in bfloat16 on a GPU, from lists of ids to lists of ids. After two searches that warm up,
one is timed and one is recorded by torch's profiler. Printed are the time of both, the share of
the recorded one in which no kernel ran on the device, the kernels by their time, and the calls of
the host. On the CPU there are only these.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from decode_throughput import PRECISIONS, ours, sentences
from torch.profiler import ProfilerActivity, profile

from transduce.config.presets import preset_named
from transduce.models.transformer.settings import TransformerConfig

NAME_CHARS = 110


def main() -> None:
    """Warm up, time, profile and print."""
    given = parsed()
    shape = preset_named(given.shape).model
    assert isinstance(shape, TransformerConfig)
    torch.manual_seed(0)
    translate = ours(shape, given)
    batch = sentences(given.sentences, shape.vocab_size)
    for _ in range(2):
        translate(batch)
    start = time.perf_counter()
    translate(batch)
    plain_s = time.perf_counter() - start
    found = {"sentences": given.sentences, "seconds": round(plain_s, 4)}
    found |= profile_of(partial(translate, batch), on_gpu=given.device == "cuda")
    show(found, given.rows)
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def profile_of(work: Callable[[], object], *, on_gpu: bool) -> dict[str, Any]:
    """Return how long some work takes under the profiler, and what takes it."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities, acc_events=True) as recorded:
        start = time.perf_counter()
        work()
        profiled_s = time.perf_counter() - start
    events = recorded.events() or []
    kernels = [
        event
        for event in events
        if event.device_type.name == "CUDA" and not getattr(event, "is_user_annotation", False)
    ]
    host = [event for event in events if event.device_type.name == "CPU"]
    return {
        "seconds_profiled": round(profiled_s, 4),
        "idle": round(1 - busy_us(kernels) / (1e6 * profiled_s), 4) if kernels else None,
        "kernels": by_name((one.name, span(one)) for one in kernels),
        "host": by_name((one.name, one.self_cpu_time_total) for one in host),
    }


def span(event: Any) -> float:
    """Return how long a kernel ran, in microseconds."""
    return float(event.time_range.end - event.time_range.start)


def busy_us(kernels: Iterable[Any]) -> float:
    """Return for how long at least one kernel ran."""
    busy, last = 0.0, float("-inf")
    for begin, end in sorted((one.time_range.start, one.time_range.end) for one in kernels):
        busy += max(0.0, end - max(begin, last))
        last = max(last, end)
    return busy


def by_name(times: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
    """Add up the times of each name, the longest first."""
    totals: dict[str, tuple[int, float]] = {}
    for name, microseconds in times:
        count, total = totals.get(name, (0, 0.0))
        totals[name] = count + 1, total + microseconds
    every = sum(total for _, total in totals.values()) or 1
    found = [
        {
            "name": name,
            "calls": count,
            "ms": round(total / 1000, 3),
            "share": round(total / every, 4),
        }
        for name, (count, total) in totals.items()
    ]
    return sorted(found, key=lambda one: -one["ms"])


def show(found: dict[str, Any], rows: int) -> None:
    """Print the tables."""
    times = f"{1000 * found['seconds']:.1f} ms, recorded {1000 * found['seconds_profiled']:.1f} ms"
    idle = "" if found["idle"] is None else f", no kernel in {found['idle']:.1%} of the latter"
    print(f"{found['sentences']:,} sentences: {times}{idle}")
    for title in ("kernels", "host"):
        print(f"{title}:\n      ms  share   calls")
        for one in found[title][:rows]:
            name = " ".join(one["name"].split())[:NAME_CHARS]
            print(f"{one['ms']:8.2f} {one['share']:6.1%} {one['calls']:7,}  {name}")


def parsed() -> argparse.Namespace:
    """Read the options; `ours` reads the same."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--shape", default="base", choices=["small", "base", "big"])
    parser.add_argument("--sentences", type=int, default=4096)
    parser.add_argument("--precision", choices=list(PRECISIONS))
    parser.add_argument("--rows", type=int, default=30)
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    given = parser.parse_args()
    given.precision = given.precision or ("float32" if given.device == "cpu" else "bf16")
    return given


if __name__ == "__main__":
    main()
