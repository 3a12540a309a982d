"""Time and memory of an encoder with each mixer, forward and backward, by the length of a sentence.

    python benchmarks/mixers_by_length.py --out FOLDER [--device cpu] [--n 256 512 … 32768]
        [--d-model 512] [--layers 2] [--tokens 0] [--ways attention window …] [--compile]
        [--limit 60] [--seconds 500]
    python benchmarks/mixers_by_length.py --out FOLDER --from FOLDER/mixers_by_length.json

The encoder is base's with fewer layers: d_model 512, 8 heads, d_ff 2048, post-norm, dropout; at
other widths, heads of 64 and d_ff of 4 · d_model. The mixers have their default sizes: a window of
256, 8 global tokens, 256 sums, 256 random features, 16 numbers of state. There is no padding, so
attention takes torch's fastest kernel, and n positions are one sentence. With `--tokens`, a batch
has so many tokens, or one sentence if that is longer, and all figures are divided by its sentences:
short sentences then fill a GPU as they do in training.

- attention: torch's fused kernel, which keeps no scores;
- attention, eq. 1: step by step, with all n² scores of each head in memory;
- attention, packed and window, packed (CUDA): our kernels for rows of packed sentences, as
  `transduce train` uses them; with `--compile`, their layers are compiled, as there;
- window, longformer, linformer, performer, s4, mamba: uncompiled, as they are trained.

A time is the median of at least three runs after one that warms up: on a CUDA device by the clock,
with bfloat16 autocast; on the CPU the processor's time, which other work disturbs less. Memory is
the most that is allocated in both passes, without weights and input, but with the gradients of the
weights. A length is left out if it would take more than `--limit` seconds, or more memory than is
free; the reason is said. FOLDER gets mixers_by_length.json, .md and .png.
"""

import argparse
import gc
import itertools
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from length_costs import (
    Costs,
    LeftOut,
    Point,
    draw,
    expected,
    markdown,
    memory,
    read_json,
    seconds,
    write_json,
)
from torch import Tensor, nn

from transduce.analysis.complexity.measuring import memory_of_passes
from transduce.config.presets import preset_named
from transduce.hardware.devices import choose_device
from transduce.hardware.free_memory import free_bytes
from transduce.models.build import build_model
from transduce.models.transformer.mixer_rules import ENCODER_MIXERS
from transduce.models.transformer.model import Transformer
from transduce.nn.mixers.attention import Attend, attend_fused, attend_reference
from transduce.nn.mixers.key_ranges import KeyRanges
from transduce.nn.mixers.masks import Allowed

NAME = "mixers_by_length"
EQ_1, PACKED = "attention, eq. 1", ("attention, packed", "window, packed")
FULL = ("attention", "attention, packed", EQ_1)
"""The ways that attend to all positions, with which the others are compared."""
MIN_RUNS, MAX_RUNS, SECONDS_OF_RUNS = 3, 20, 1.0
MORE_RUNS = 3
"""Beside those that are timed: one warms up, one is for the memory, which a profiler slows down."""
SHARE_OF_MEMORY = 0.9


class Encoder(nn.Module):
    """The layers of an encoder, from [B, n, d_model] to the same shape."""

    def __init__(
        self,
        model: Transformer,
        attend: Attend,
        allowed: Allowed,
        autocast: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(model.encoder)
        self.attend, self.allowed, self.autocast = attend, allowed, autocast

    def forward(self, x: Tensor) -> Tensor:
        """Encode."""
        with self.autocast():
            for layer in self.layers:
                x = layer(x, allowed=self.allowed, attend=self.attend)
        return x


def attend_by_eq_1(*given: Any, **named: Any) -> Tensor:
    """Attend step by step."""
    return attend_reference(*given, **named)[0]


def one_sentence_after_another(n: int, sentences: int, device: torch.device) -> KeyRanges:
    """Say where sentences of n tokens lie in a packed row."""
    first = torch.arange(sentences, dtype=torch.int32, device=device).repeat_interleave(n) * n
    return KeyRanges(first, first + n, first, first + n)


def encoder(way: str, n: int, sentences: int, given: argparse.Namespace) -> Encoder:
    """Build an encoder on the device."""
    mixer = way.partition(",")[0]
    d = given.d_model
    changes = {"d_model": d, "d_ff": 4 * d, "h": max(1, d // 64), "n_layers": given.layers}
    changes |= {"vocab_size": 8, "max_positions": n, "encoder_mixers": mixer}
    torch.manual_seed(0)
    model = build_model(preset_named("base").with_changes({"model": changes}).model)
    assert isinstance(model, Transformer)
    model.to(given.device).train()
    if given.compile and way in PACKED:
        for layer in model.encoder:
            layer.compile(dynamic=False)
    is_cuda = given.device.type == "cuda"
    autocast = partial(torch.autocast, given.device.type, dtype=torch.bfloat16, enabled=is_cuda)
    allowed = one_sentence_after_another(n, sentences, given.device) if way in PACKED else None
    return Encoder(model, attend_by_eq_1 if way == EQ_1 else attend_fused, allowed, autocast)


def measure(way: str, n: int, given: argparse.Namespace) -> Point:
    """Measure one way at one length."""
    sentences = max(1, given.tokens // n)
    layers = encoder(way, n, sentences, given)
    rows = (1, sentences * n) if way in PACKED else (sentences, n)
    dtype = torch.bfloat16 if given.device.type == "cuda" else torch.float32
    x = torch.randn(*rows, given.d_model).to(given.device, dtype).requires_grad_()
    gradient = torch.ones_like(layers(x)).detach()
    runs: list[float] = []
    once(layers, x, gradient)  # so that what is done once, such as choosing kernels, is done
    began = time.perf_counter()
    while len(runs) < MIN_RUNS or (
        len(runs) < MAX_RUNS and time.perf_counter() - began < SECONDS_OF_RUNS
    ):
        runs.append(once(layers, x, gradient))
    clear_gradients(layers, x)
    _, peak = memory_of_passes(layers, x, gradient)
    return Point(way, n, float(np.median(runs)) / sentences, round(peak / sentences), len(runs))


def once(layers: Encoder, x: Tensor, gradient: Tensor) -> float:
    """Run forward and backward; return the seconds."""
    clear_gradients(layers, x)
    began = now(x)
    torch.autograd.backward(layers(x), gradient)
    return now(x) - began


def clear_gradients(layers: Encoder, x: Tensor) -> None:
    """Free the gradients of weights and input."""
    layers.zero_grad(set_to_none=True)
    x.grad = None


def now(x: Tensor) -> float:
    """Return the time: on a CUDA device once all work is done, on the CPU the processor's."""
    if not x.is_cuda:
        return time.process_time()
    torch.cuda.synchronize(x.device)
    return time.perf_counter()


def obstacle(before: list[Point], n: int, given: argparse.Namespace, ends: float) -> str:
    """Say why a length should not be tried; nothing if it may."""
    # Fixed numbers of tokens: what a batch takes is that of a sentence, so many times.
    sentences = max(1, given.tokens // n)
    time_s = sentences * expected(before, n, seconds) * (MIN_RUNS + MORE_RUNS)
    if time_s > given.limit:
        return f"it would take about {time_s:,.0f} s, more than {given.limit:g} s"
    if time_s > ends - time.perf_counter():
        return f"of the {given.seconds:g} s in all too few are left"
    needed = sentences * expected(before, n, memory)
    free = SHARE_OF_MEMORY * free_bytes(given.device)
    if needed > free:
        return f"it would need about {needed / 2**30:.1f} GiB, of which {free / 2**30:.1f} are free"
    return ""


def measure_all(given: argparse.Namespace) -> Costs:
    """Measure all ways at all lengths, the shortest first, until each is left out."""
    ends = time.perf_counter() + given.seconds
    points: list[Point] = []
    left_out: dict[str, LeftOut] = {}

    def costs() -> Costs:
        return Costs(machine(given), tuple(points), tuple(left_out.values()))

    for n, way in itertools.product(sorted(given.n), given.ways):
        if way in left_out:
            continue
        why = obstacle([point for point in points if point.way == way], n, given, ends)
        try:
            found = None if why else measure(way, n, given)
        except RuntimeError as fault:
            if not is_lack_of_memory(fault):
                raise
            found, why = None, "not enough memory"
        free_memory(given.device)
        if found is None:
            left_out[way] = LeftOut(way, n, why)
            print(f"{n:7,} {way:18} left out: {why}", flush=True)
            continue
        points.append(found)
        write_json(costs(), given.out / f"{NAME}.json")  # kept if the process is ended
        time_ms, peak = 1e3 * found.seconds, found.peak_bytes / 2**20
        print(f"{n:7,} {way:18} {time_ms:12,.2f} ms {peak:10,.1f} MiB", flush=True)
    return costs()


def is_lack_of_memory(fault: RuntimeError) -> bool:
    """Recognise it on the CPU too, where torch has no exception of its own for it."""
    return isinstance(fault, torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(fault)


def free_memory(device: torch.device) -> None:
    """Free what the last measurement held, and with it compiled code."""
    torch.compiler.reset()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def machine(given: argparse.Namespace) -> dict[str, Any]:
    """Say on what, and how, it was measured."""
    is_cuda = given.device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(given.device) if is_cuda else "CPU",
        "precision": "bfloat16" if is_cuda else "float32",
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "d_model": given.d_model,
        "layers": given.layers,
        "tokens of a batch": given.tokens or "one sentence's",
        "compiled": ", ".join(PACKED) if given.compile else "none",
    }


def main() -> None:
    """Measure, or read what was measured, and write the tables and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--from", type=Path, dest="before", metavar="FILE", help="measure nothing")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--n", type=int, nargs="+", default=[2**i for i in range(8, 16)])
    parser.add_argument("--fit-from", type=int, default=4096, help="least n of the exponents")
    parser.add_argument("--d-model", type=int, default=512)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=0, help="of a batch; 0: one sentence")
    every = [EQ_1, *PACKED, *ENCODER_MIXERS]
    parser.add_argument("--ways", nargs="+", choices=every, metavar="WAY", help=", ".join(every))
    parser.add_argument("--compile", action="store_true", help="the layers of packed rows")
    parser.add_argument("--limit", type=float, default=60, help="seconds of one measurement")
    parser.add_argument("--seconds", type=float, default=500, help="of all measurements")
    given = parser.parse_args()
    if given.before is None:
        given.device = choose_device(given.device)
        is_cuda = given.device.type == "cuda"
        given.ways = given.ways or ["attention", EQ_1, *PACKED * is_cuda, *ENCODER_MIXERS[1:]]
        if not is_cuda and {*given.ways} & {*PACKED}:
            parser.error("--ways: packed rows have kernels on a CUDA device alone")
    given.out.mkdir(parents=True, exist_ok=True)
    costs = measure_all(given) if given.before is None else read_json(given.before)
    write_json(costs, given.out / f"{NAME}.json")
    text = markdown(costs, least=given.fit_from, full=FULL)
    (given.out / f"{NAME}.md").write_text(text, encoding="utf-8")
    draw(costs, given.out / f"{NAME}.png")
    print(text)


if __name__ == "__main__":
    main()
