"""`transduce translate`, file in, file out, with both engines, beside CTranslate2 driven by hand.

    python benchmarks/end_to_end.py [--shape base] [--rounds 3] [--lines 32 96]

All translate the same lines of 29 words with a beam of 4 and α = 0.6 on the CPU in float32 to
translations of 29 tokens and EOS, each in a process of its own that reads a file and writes one:

- transduce, CTranslate2 and transduce, torch: the command with `--engine`; all lines at once, or
  with `--window 1` line by line.
- by hand: a few lines of Python that load the converted model and call `translate_batch` with
  `max_batch_size=32`, or with one line a call. Its tokens are the words: nothing is encoded.

Times are CPU times, with one thread: what it would take if nothing else ran on the machine. Two
files of different lengths separate the speed from the start-up: the difference of their times,
divided by the difference of their lines. The contenders take turns; a time is the least over the
rounds, because noise only adds to it. The weights are such that every translation ends where it
should and none repeats itself, so that no second search is needed. The exit code is 1 if `transduce
translate --engine ctranslate2` has less than 95 % of the speed by hand.
"""

import argparse
import math
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from transduce.config.presets import preset_named
from transduce.config.schema import Config
from transduce.export.ctranslate2 import export_ctranslate2
from transduce.models.build import build_model
from transduce.models.folder import LoadedModel, save_model
from transduce.models.transformer.model import Transformer
from transduce.text.special_ids import EOS_ID
from transduce.text.tokenizer import SPECIALS, Tokenizer

WORDS = 29
SIGNAL = 0
"""The feature that marks the end of a translation."""

BY_HAND = """
import sys, ctranslate2
model, source, target, batch = sys.argv[1:]
translator = ctranslate2.Translator(model, intra_threads=1, compute_type="float32")
options = dict(beam_size=4, length_penalty=0.6, max_decoding_length=30)
lines = [line.split() + ["< eos >"] for line in open(source, encoding="utf-8")]
calls = [lines] if int(batch) > 1 else [[line] for line in lines]
with open(target, "w", encoding="utf-8") as out:
    for call in calls:
        for result in translator.translate_batch(call, max_batch_size=int(batch), **options):
            out.write(" ".join(result.hypotheses[0]) + "\\n")
"""

CONTENDERS = ("transduce, CTranslate2", "transduce, torch", "CTranslate2 by hand")


def make_model(folder: Path, shape: str) -> None:
    """Write a model folder of words that are numbers, whose translations end where they should."""
    base = preset_named(shape).model
    words = " ".join(f"w{number}" for number in range(base.vocab_size - len(SPECIALS)))
    tokenizer = Tokenizer.learn([words], kind="whitespace", vocab_size=base.vocab_size)
    changes = {
        "vocab_size": len(tokenizer),
        "positions": "learned",
        "max_positions": WORDS + 1,
    }
    config = Config().with_changes({"model": base.model_dump(exclude_unset=True) | changes})
    model = build_model(config.model)
    assert isinstance(model, Transformer)
    save_model(folder, LoadedModel(ending(model), config, tokenizer))


@torch.no_grad()
def ending(model: Transformer) -> Transformer:
    """Change the weights so that every position predicts its own word, and the last one EOS."""
    table, weight = model.positions.table, model.embedding.weight
    for name, matrix in model.named_parameters():
        if "w_o" in name or "w_2" in name:
            matrix.mul_(0.01)  # the layers compute, and change little
    weight[:, SIGNAL] = 0
    table.copy_(100 * weight[len(SPECIALS) : len(SPECIALS) + table.size(0)])
    table[-1, SIGNAL] = 1e4
    weight[EOS_ID] = 0
    weight[EOS_ID, SIGNAL] = 10
    last_norm = model.decoder[-1].add_norm_3.norm
    assert isinstance(last_norm, torch.nn.LayerNorm)
    last_norm.bias[SIGNAL] = -math.sqrt(weight.size(1)) / 4
    return model


def write_text(path: Path, count: int, vocab_size: int) -> None:
    """Draw random lines."""
    drawn = np.random.default_rng(0).integers(vocab_size - len(SPECIALS), size=(count, WORDS))
    lines = (" ".join(f"w{number}" for number in row) for row in drawn)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def command(contender: str, work: Path, text: Path, *, at_once: bool) -> list[str]:
    """Return the command of a contender's process."""
    out = str(work / "out.txt")
    if contender == "CTranslate2 by hand":
        batch = "32" if at_once else "1"
        folder = str(work / "converted")
        return [sys.executable, "-c", BY_HAND, folder, str(text), out, batch]
    engine = "ctranslate2" if contender.endswith("CTranslate2") else "torch"
    window = [] if at_once else ["--window", "1"]
    arguments = ["translate", str(work / "model"), str(text), "--device", "cpu"]
    return [
        sys.executable,
        "-m",
        "transduce",
        *arguments,
        "--engine",
        engine,
        "--out",
        out,
        *window,
    ]


def seconds(arguments: list[str], work: Path, *, lines: int) -> float:
    """Run a process, check what it wrote, and return its CPU time."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}  # noqa: TID251
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert done.returncode == 0, done.stderr[-2000:]
    assert not done.stderr, f"something was searched for twice: {done.stderr[:200]}"
    written = (work / "out.txt").read_text(encoding="utf-8").splitlines()
    assert len(written) == lines
    assert {len(line.split()) for line in written} == {WORDS}, "a translation of another length"
    return taken


def measure(work: Path, options: argparse.Namespace, *, at_once: bool) -> dict[str, float]:
    """Print lines a second and the start-up time of each contender; return the former."""
    few, many = options.lines if at_once else [max(1, n // 8) for n in options.lines]
    size = preset_named(options.shape).model.vocab_size
    texts = {count: work / f"{count}.txt" for count in (few, many)}
    for count, path in texts.items():
        write_text(path, count, size)
    least: dict[tuple[str, int], float] = {}
    for _ in range(options.rounds):
        for contender in CONTENDERS:
            for count, path in texts.items():
                arguments = command(contender, work, path, at_once=at_once)
                taken = seconds(arguments, work, lines=count)
                least[contender, count] = min(taken, least.get((contender, count), math.inf))
    speeds = {}
    for contender in CONTENDERS:
        short, long = least[contender, few], least[contender, many]
        speeds[contender] = (many - few) / (long - short)
        start = short - few / speeds[contender]
        print(
            f"  {contender:24s} {speeds[contender]:7.2f} lines/s, start-up {start:5.2f} s; "
            f"{many} lines with it {long:6.2f} s"
        )
    return speeds


def main() -> None:
    """Measure both ways to read, and check the claim."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", default="base")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", type=int, nargs=2, default=[32, 96])
    options = parser.parse_args()
    holds = True
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        make_model(work / "model", options.shape)
        export_ctranslate2(work / "model", work / "converted")
        for at_once in (True, False):
            print("all lines at once:" if at_once else "line by line:")
            speeds = measure(work, options, at_once=at_once)
            share = speeds["transduce, CTranslate2"] / speeds["CTranslate2 by hand"]
            holds &= share >= 0.95
            print(
                f"{'holds' if share >= 0.95 else 'FAILS'}: 95 % of the speed by hand ({share:.0%})"
            )
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
