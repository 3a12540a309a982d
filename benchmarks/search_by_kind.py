"""Speed and memory of beam search with every mixer, kind of positions, depth and kind of model.

    python benchmarks/search_by_kind.py [--shape base] [--device cpu] [--threads 1]
        [--batches 1 32] [--tokens 30] [--rounds 3] [--kinds attention window …] [--json FILE]

All translate the same random sentences with a beam of 4 and α = 0.6, to exactly as many tokens as
the source has, EOS included, by `TorchEngine` as `transduce translate` calls it. The weights are
random. The output's row of EOS is 0, so that it is never among the best continuations of tens of
thousands. With `benchmarks/decode_throughput.py`, which compares one kind with other programs, it
shares the sentences; its way to avoid EOS needs the paper's last norm.

The kinds are models, so of different sizes: the table has their parameters. Mixers are in encoder
and decoder; the window is 16, so that a translation is longer. Of `rnn`, `conv_s2s` and `bytenet`
the shape is a preset of theirs at the width of the Transformer.

All take turns round by round, after one round that warms up (and records, on a CUDA device); the
ratio is the median over the rounds of attention's time divided by the kind's. On a CUDA device all
are in bfloat16, and times are by the clock; on the CPU they are the processor's, which other work
disturbs less. "State" is what a search keeps for each hypothesis at the end: without what all
hypotheses of a sentence share. "Peak" is the most that a translation allocates beside the weights
(in the first one on a CUDA device, with all that it keeps for the next).
"""

import argparse
import gc
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from decode_throughput import ALPHA, BEAM, SPECIAL_TOKENS, Ids

from transduce.analysis.complexity.measuring import allocated_bytes
from transduce.analysis.cost import tensors_of
from transduce.config.presets import preset_named
from transduce.config.schema import ModelConfig
from transduce.hardware.devices import choose_device
from transduce.models.base import Seq2Seq
from transduce.models.build import build_model
from transduce.models.transformer.settings import TransformerConfig
from transduce.tasks.translation import TranslationTask
from transduce.text.special_ids import EOS_ID
from transduce.text.tokenizer import Tokenizer
from transduce.translation.engine import EncodedSentence
from transduce.translation.inference import prepare_for_inference
from transduce.translation.options import Options
from transduce.translation.torch_engine import TorchEngine

BASELINE, WINDOW = "attention", 16


@dataclass
class Searched:
    """What was measured of one kind; times by number of sentences."""

    kind: str
    parameters: int
    state_bytes: int
    seconds: dict[int, list[float]] = field(default_factory=dict)
    peak_bytes: dict[int, int] = field(default_factory=dict)
    faults: dict[int, str] = field(default_factory=dict)


def kinds(shape: TransformerConfig) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return a preset and settings for each kind; an empty preset is the shape's own."""
    n, d = shape.n_layers, shape.d_model
    both = {name: mixers(name) for name in ("window", "performer", "s4", "mamba")}
    positions = ("learned", "relative", "t5", "alibi", "rotary", "none")
    found: dict[str, dict[str, Any]]
    found = {BASELINE: {}, "kv_heads 2": {"kv_heads": 2}, "kv_heads 1": {"kv_heads": 1}}
    found |= both | {"mamba, attention by turns": mixers("mamba", BASELINE)}
    found |= {"linformer across": {"cross_mixer": "linformer", "low_rank": 16}}
    found |= {f"positions {name}": {"positions": name} for name in positions}
    for encoder, decoder in ((n + n // 2, max(1, n // 2)), (2 * n, max(1, n // 3))):
        layers = {"n_encoder_layers": encoder, "n_decoder_layers": decoder}
        found[f"{encoder}+{decoder} layers"] = layers
    found["rms, swiglu"] = {"norm_kind": "rms", "activation": "swiglu", "d_ff": shape.d_ff * 2 // 3}
    others: dict[str, tuple[str, dict[str, Any]]] = {
        "rnn": ("rnn_small", {"d_model": d, "d_hidden": d}),
        "conv_s2s": ("conv_s2s_small", {"layers": f"6x{d}k3", "d_model": d}),
        "bytenet": ("bytenet_small", {"d_model": 2 * d}),
    }
    return {name: ("", settings) for name, settings in found.items()} | others


def mixers(*names: str) -> dict[str, Any]:
    """Return the settings of a model that mixes in both stacks by these."""
    return {"encoder_mixers": [*names], "decoder_mixers": [*names], "window": WINDOW}


class Contender:
    """A kind of model, ready to translate."""

    def __init__(self, name: str, given: argparse.Namespace) -> None:
        preset, changes = given.known[name]
        changes = changes | {"vocab_size": given.vocab_size, "max_positions": 2 * given.tokens}
        config = preset_named(preset or given.shape)
        known = type(config.model).model_fields
        changes = {name: value for name, value in changes.items() if name in known}
        torch.manual_seed(0)
        model = never_ending(config.with_changes({"model": changes}).model).to(given.device)
        parameters = sum(weight.numel() for weight in model.parameters())
        self.model = prepare_for_inference(model, precision=given.precision)
        self.engine = TorchEngine(
            given.device, given.tokens, TranslationTask(), self.model, given.tokenizer
        )
        self.result = Searched(name, parameters, state_bytes(self.model, given))

    def translate(self, batch: Ids) -> Ids:
        """Translate ids to ids."""
        asked = Options(beam=BEAM, alpha=ALPHA, max_batch_tokens=10**12, second_try=False)
        sentences = [EncodedSentence(ids, number, []) for number, ids in enumerate(batch)]
        found = self.engine.search_with_retry(sentences, asked)
        return [one.hypotheses[0].ids for one in found]


@torch.no_grad()
def never_ending(config: ModelConfig) -> Seq2Seq:
    """Build a model that gives EOS a score of 0, far below the best of a large vocabulary."""
    model = build_model(config)
    model.projection[EOS_ID] = 0
    return model


@torch.inference_mode()
def state_bytes(model: Seq2Seq, given: argparse.Namespace) -> int:
    """Return what a search keeps for each hypothesis that no other has."""
    memory = model.encode(torch.full((1, given.tokens), EOS_ID, device=given.device))

    def size(hypotheses: int) -> int:
        state = model.start(memory, hypotheses=hypotheses, max_steps=given.tokens)
        return sum(tensor.nbytes for tensor in tensors_of(state))

    return (size(BEAM) - size(1)) // (BEAM - 1)


def sentences(count: int, given: argparse.Namespace) -> Ids:
    """Draw random sentences."""
    shape = (count, given.tokens - 1)
    drawn = np.random.default_rng(0).integers(len(SPECIAL_TOKENS), given.vocab_size, size=shape)
    ids: Ids = drawn.tolist()
    return ids


def measure(given: argparse.Namespace) -> list[Searched]:
    """Let all kinds translate in turns, batch size by batch size."""
    contenders = [Contender(name, given) for name in given.kinds]
    gc.collect()
    gc.freeze()  # or now and then Python would look through all that the libraries have loaded
    for size in given.batches:
        batch = sentences(size, given)
        able = [one for one in contenders if warmed_up(one, batch, given)]
        for number in range(given.rounds):
            for one in able:
                began = now(given.device)
                one.translate(batch)
                one.result.seconds.setdefault(size, []).append(now(given.device) - began)
            print(f"{size} sentences: round {number + 1} of {given.rounds}", flush=True)
            write(contenders, given.json)  # kept if the process is ended
    return [one.result for one in contenders]


def write(contenders: list[Contender], path: Path | None) -> None:
    """Write what was measured so far, if a file was named."""
    if path:
        found = [asdict(one.result) for one in contenders]
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def warmed_up(one: Contender, batch: Ids, given: argparse.Namespace) -> bool:
    """Translate twice, first with an eye on the memory; say whether it can be timed."""
    size, result = len(batch), one.result
    began = time.perf_counter()
    try:
        result.peak_bytes[size] = peak(lambda: check(one.translate(batch), given), given.device)
        one.translate(batch)
    except (RuntimeError, AssertionError) as fault:
        result.faults[size] = str(fault).partition("\n")[0][:100]
    took = time.perf_counter() - began
    if took > given.limit:
        result.faults[size] = f"warming up took {took:.0f} s"
    print(f"{size} sentences: {result.kind} {result.faults.get(size, f'{took:.1f} s')}", flush=True)
    return size not in result.faults


def check(answers: Ids, given: argparse.Namespace) -> None:
    """Check that no search ended early."""
    assert {len(ids) for ids in answers} == {given.tokens}, "a translation of another length"


def peak(work: Callable[[], None], device: torch.device) -> int:
    """Return the most bytes that some work allocates."""
    if device.type != "cuda":
        return allocated_bytes(work)[1]
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved(device)
    torch.cuda.reset_peak_memory_stats(device)
    work()
    return torch.cuda.max_memory_reserved(device) - before


def now(device: torch.device) -> float:
    """Return the time: by the clock on a CUDA device, else the processor's."""
    if device.type != "cuda":
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()


def table(found: list[Searched], batches: list[int], tokens: int) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    base = next((one for one in found if one.kind == BASELINE), None)
    heads = [f"{size:,} at once: tokens/s | {BASELINE} = 1 | peak MiB" for size in batches]
    yield f"| | parameters, M | state, KiB | {' | '.join(heads)} |"
    yield f"|---|---|---|{'---|---|---|' * len(batches)}"
    for one in found:
        cells = [one.kind, f"{one.parameters / 1e6:.1f}", f"{one.state_bytes / 1024:,.1f}"]
        for size in batches:
            cells += cells_of(one, base, size, tokens)
        yield f"| {' | '.join(cells)} |"


def cells_of(one: Searched, base: Searched | None, size: int, tokens: int) -> list[str]:
    """Return speed, ratio and memory of a kind at a batch size."""
    if size in one.faults or size not in one.seconds:
        return [one.faults.get(size, "not measured"), "–", "–"]
    times = one.seconds[size]
    ratio = math.nan
    if base is not None and len(base.seconds.get(size, [])) == len(times):
        ratio = float(np.median(np.divide(base.seconds[size], times)))
    speed = size * tokens / float(np.median(times))
    return [f"{speed:,.0f}", f"{ratio:.2f}", f"{one.peak_bytes[size] / 2**20:,.1f}"]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shape", default="base", choices=["tiny", "small", "base", "big"])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32], help="their sizes")
    parser.add_argument("--tokens", type=int, default=30, help="of a sentence, EOS included")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", metavar="NAME", help="instead of all")
    parser.add_argument("--vocab-size", type=int, default=37_000)
    parser.add_argument("--limit", type=float, default=60, help="seconds to warm up a kind")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured")
    given = parser.parse_args()
    shape = preset_named(given.shape).model
    assert isinstance(shape, TransformerConfig)
    given.known = kinds(shape)
    given.kinds = given.kinds or [*given.known]
    if unknown := {*given.kinds} - {*given.known}:
        parser.error(f"--kinds: no {unknown}; use any of {[*given.known]}")
    torch.set_num_threads(given.threads)
    given.device = choose_device(given.device)
    given.precision = "bf16" if given.device.type == "cuda" else "float32"
    words = " ".join(f"w{number}" for number in range(given.vocab_size - len(SPECIAL_TOKENS)))
    given.tokenizer = Tokenizer.learn([words], kind="whitespace", vocab_size=given.vocab_size)
    found = measure(given)
    print("\n".join(table(found, given.batches, given.tokens)))


if __name__ == "__main__":
    main()
