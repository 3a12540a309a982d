"""Training throughput beside `torch.nn.Transformer` and transformers' MarianMT, on real lengths.

    python benchmarks/train_throughput.py --src train.en --tgt train.de [--shape small]
        [--device cpu] [--threads 2] [--batch-tokens 4096] [--peer-tokens 4096] [--batches 8]
        [--rounds 9] [--contenders transduce MarianMT] [--beside ../other/checkout]

All train the same shape on the same text, with dropout 0.1 where each places it: forward,
label-smoothed loss, backward, Adam; ours by the code of `transduce train`, the others in the loop
that most people write, with batches of similar lengths as they would make them. Only real source
and target tokens count, no padding. Each contender runs in its own process, with the settings that
its user would have. They take turns, so that a noisy machine disturbs all alike; a turn's time is
its median over the rounds. On the CPU a turn is one batch, and beside it stands the CPU time of all
threads of the process, which shows what a step costs where others use the machine too. On a CUDA
device a turn is all batches without a pause, after all of them once without a clock, which
reallocates the memory that was left to the others; all compute in bfloat16, and each speed is also
given as a share of the rate at which the device multiplies large matrices in the same run.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import chain, count, islice
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from transduce.analysis.cost import cost_of
from transduce.config.presets import preset_named
from transduce.config.schema import Config
from transduce.data.corpus import TwoFiles, read_lines, read_pairs
from transduce.data.loader import Loader, StepBatches
from transduce.data.store import Store, StoreSpec, open_or_build
from transduce.hardware.allocator import keep_freed_memory
from transduce.models.build import build_model
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn.mixers.positions import sinusoids
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID
from transduce.text.tokenizer import Tokenizer
from transduce.training.distributed import Processes
from transduce.training.step.machine import choose_machine
from transduce.training.step.train_step import TrainStep

EPS_LS, RATE = 0.1, 1e-4
WARM_UP = 2
"""Rounds that do not count. In the first, all start at once and compile what they compile."""
CONTENDERS = {
    "cpu": ["transduce", "nn.Transformer", "MarianMT"],
    "cuda": [
        "transduce",
        "nn.Transformer",
        "nn.Transformer, compiled",
        "MarianMT",
        "MarianMT, compiled",
    ],
}
Step = Callable[[StepBatches], object]


def ours(config: Config) -> Step:
    """Return a step as `transduce train` makes it."""
    keep_freed_memory()
    machine = choose_machine(config.run)
    step = TrainStep(build_model(config.model).to(machine.device), config, machine)
    return lambda batches: step(batches, number=1, rate=RATE, processes=Processes())


def theirs(model: nn.Module, device: str) -> Step:
    """Return a step of a peer, as in most training loops."""
    model.to(device).train()
    adam = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9)

    def step(share: StepBatches) -> None:
        (batch,) = share.batches
        src, tgt_in, tgt_out = (
            ids.to(device, non_blocking=True) for ids in (batch.src, batch.tgt_in, batch.tgt_out)
        )
        adam.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits = model(src, tgt_in)
            loss = F.cross_entropy(
                logits.flatten(0, 1),
                tgt_out.flatten(),
                ignore_index=PAD_ID,
                label_smoothing=EPS_LS,
            )
        torch.autograd.backward(loss)
        adam.step()

    return step


class TorchTransformer(nn.Module):
    """`torch.nn.Transformer` as in most training loops that use it."""

    positions: Tensor

    def __init__(self, shape: TransformerConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocab_size, shape.d_model, padding_idx=PAD_ID)
        nn.init.normal_(self.embedding.weight, std=shape.d_model**-0.5)
        self.register_buffer("positions", sinusoids(shape.max_positions, shape.d_model))
        self.dropout = nn.Dropout(shape.p_drop)
        self.transformer = nn.Transformer(
            shape.d_model,
            shape.h,
            shape.n_layers,
            shape.n_layers,
            shape.d_ff,
            shape.p_drop,
            batch_first=True,
        )
        self.projection = nn.Linear(shape.d_model, shape.vocab_size, bias=False)
        self.projection.weight = self.embedding.weight

    def _embed(self, ids: Tensor) -> Tensor:
        scale = math.sqrt(self.embedding.embedding_dim)
        embedded: Tensor = self.embedding(ids) * scale + self.positions[: ids.size(1)]
        dropped: Tensor = self.dropout(embedded)
        return dropped

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """Return logits."""
        length = tgt_in.size(1)
        later = torch.ones(length, length, dtype=torch.bool, device=src.device).triu(1)
        states = self.transformer(
            self._embed(src),
            self._embed(tgt_in),
            tgt_mask=later,
            src_key_padding_mask=src == PAD_ID,
            tgt_key_padding_mask=tgt_in == PAD_ID,
            memory_key_padding_mask=src == PAD_ID,
        )
        logits: Tensor = self.projection(states)
        return logits


class Marian(nn.Module):
    """transformers' MarianMT of the same shape."""

    def __init__(self, shape: TransformerConfig) -> None:
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        self.model = MarianMTModel(
            MarianConfig(
                vocab_size=shape.vocab_size,
                d_model=shape.d_model,
                encoder_layers=shape.n_layers,
                decoder_layers=shape.n_layers,
                encoder_attention_heads=shape.h,
                decoder_attention_heads=shape.h,
                encoder_ffn_dim=shape.d_ff,
                decoder_ffn_dim=shape.d_ff,
                max_position_embeddings=shape.max_positions,
                activation_function="relu",
                scale_embedding=True,
                dropout=shape.p_drop,
                pad_token_id=PAD_ID,
                bos_token_id=BOS_ID,
                eos_token_id=EOS_ID,
                forced_eos_token_id=EOS_ID,
                decoder_start_token_id=BOS_ID,
            )
        )

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """Return logits."""
        output = self.model(
            input_ids=src,
            attention_mask=src != PAD_ID,
            decoder_input_ids=tgt_in,
            decoder_attention_mask=tgt_in != PAD_ID,
            use_cache=False,
        )
        logits: Tensor = output.logits
        return logits


def contender(name: str, config: Config) -> Step:
    """Build the contender of this name."""
    torch.manual_seed(0)
    shape = config.model
    assert isinstance(shape, TransformerConfig)
    match name:
        case "transduce":
            return ours(config)
        case "nn.Transformer":
            return theirs(TorchTransformer(shape), config.run.device)
        case "MarianMT":
            return theirs(Marian(shape), config.run.device)
        case "nn.Transformer, compiled":
            model: nn.Module = TorchTransformer(shape)
        case _:
            model = Marian(shape)
    model.compile(dynamic=True)
    return theirs(model, config.run.device)


def serve(options: argparse.Namespace) -> None:
    """Run as one contender: at each line of standard input, train on the batches of one turn."""
    torch.set_num_threads(options.threads)
    on_cuda, is_ours = options.device == "cuda", options.contender == "transduce"
    batch_tokens = options.batch_tokens if is_ours else options.peer_tokens
    loader = Loader(
        Store.open(options.store),
        max_tokens=batch_tokens,
        pin=on_cuda,
        packed=is_ours and on_cuda,
    )
    # Where a turn is more than one batch, it is as much text for all.
    more = options.batch_tokens // batch_tokens if on_cuda else 1
    shares = taken(loader, options.batches * max(1, more))
    step = contender(options.contender, settings(options))
    per_turn = len(shares) if on_cuda else 1
    turns = [shares[at : at + per_turn] for at in range(0, len(shares), per_turn)]
    for number, _ in enumerate(sys.stdin):
        turn = turns[number % len(turns)]
        if on_cuda:
            take(turn, step, on_cuda=True)
        seconds, cpu_seconds = take(turn, step, on_cuda=on_cuda)
        if on_cuda:
            torch.cuda.empty_cache()
        tokens = sum(share.src_tokens + share.tgt_tokens for share in turn)
        print(seconds, cpu_seconds, tokens, flush=True)


def take(turn: list[StepBatches], step: Step, *, on_cuda: bool) -> tuple[float, float]:
    """Train on some batches; return seconds and CPU seconds."""
    start, cpu_start = time.perf_counter(), time.process_time()
    for share in turn:
        step(share)
    if on_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start, time.process_time() - cpu_start


def taken(loader: Loader, batches: int) -> list[StepBatches]:
    """Take the first batches: all but the last of an epoch, which may be small."""
    steps = (step for epoch in count() for step in loader.steps(epoch))
    return list(islice((step for step in steps if step.done < step.epoch_batches), batches))


def settings(options: argparse.Namespace) -> Config:
    """Take a preset, with the same dropout for all and the learned vocabulary."""
    return preset_named(options.shape).with_changes(
        {
            "model": {"p_drop": 0.1, "vocab_size": options.vocab_size},
            "training": {"eps_ls": EPS_LS},
            "run": {"device": options.device},
        }
    )


def prepare(options: argparse.Namespace, work: Path) -> None:
    """Learn a vocabulary and build the store; keep where they are in the options."""
    paths = work / "src", work / "tgt"
    for given, path in zip((options.src, options.tgt), paths, strict=True):
        lines = islice(read_lines(given), options.pairs)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    source, vocabulary = TwoFiles(*paths), work / "tokenizer.json"
    size = preset_named(options.shape).model.vocab_size
    tokenizer = Tokenizer.learn(chain.from_iterable(read_pairs(source)), vocab_size=size)
    tokenizer.save(vocabulary)
    open_or_build(StoreSpec((source,), vocabulary), work / "cache")
    options.store = next(path.parent for path in work.glob("cache/*/manifest"))
    options.vocab_size = len(tokenizer)


def measure(options: argparse.Namespace) -> dict[str, NDArray[np.float64]]:
    """Let the contenders take turns; return each one's seconds, CPU seconds and tokens, by turn."""
    sizes = ("batch_tokens", "peer_tokens", "batches", "vocab_size")
    given = {
        name: getattr(options, name) for name in ("shape", "device", "threads", "store", *sizes)
    }
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    running = {
        name: start(Path(__file__), [*arguments, f"--contender={name}"])
        for name in options.contenders or CONTENDERS[options.device]
    }
    if options.beside:
        other = options.beside / "benchmarks" / Path(__file__).name
        running[f"transduce in {options.beside}"] = start(
            other, [*arguments, "--contender=transduce"], package=options.beside / "src"
        )
    turns = 1 if options.device == "cuda" else options.batches
    times: dict[str, list[list[list[float]]]] = {name: [] for name in running}
    for process in running.values():
        ask(process)
    for process in running.values():
        answer(process)
    for _ in range(WARM_UP - 1 + options.rounds):
        for name in running:
            times[name].append([])
        for _ in range(turns):
            for name, process in running.items():
                ask(process)
                times[name][-1].append(answer(process))
    for process in running.values():
        process.communicate()
    counted = {name: np.array(rounds)[WARM_UP - 1 :] for name, rounds in times.items()}
    return {name: np.median(rounds, axis=0) for name, rounds in counted.items()}


def start(
    script: Path, arguments: list[str], *, package: Path | None = None
) -> "subprocess.Popen[str]":
    """Start a contender; with `package`, on that source tree instead of the installed one."""
    # Threads that wait for work would otherwise take the time of those that have some.
    environment = ["OMP_WAIT_POLICY=passive"]
    if package:
        environment.append(f"PYTHONPATH={os.pathsep.join([str(package), *sys.path[1:]])}")
    return subprocess.Popen(
        ["/usr/bin/env", *environment, sys.executable, str(script), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(process: "subprocess.Popen[str]") -> None:
    """Start a contender's turn."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def answer(process: "subprocess.Popen[str]") -> list[float]:
    """Wait until the turn is over; return seconds, CPU seconds and tokens."""
    assert process.stdout is not None
    return [float(number) for number in process.stdout.readline().split()]


def main() -> None:
    """Compare all contenders, or run as one of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--src", type=Path)
    parser.add_argument("--tgt", type=Path)
    parser.add_argument("--pairs", type=int, default=29_000, help="how many pairs to read")
    parser.add_argument("--shape", default="small", choices=["tiny", "small", "base", "big"])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-tokens", type=int, default=4096, help="on either side")
    parser.add_argument("--peer-tokens", type=int, help="of the others' batches, if different")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--contenders", nargs="+", metavar="NAME", help="instead of all")
    parser.add_argument("--beside", type=Path, help="another checkout, to compare versions")
    inner = parser.add_argument_group("used by the program when it starts itself")
    inner.add_argument("--contender")
    inner.add_argument("--store", type=Path)
    inner.add_argument("--vocab-size", type=int)
    options = parser.parse_args()
    options.peer_tokens = options.peer_tokens or options.batch_tokens
    if options.contender:
        serve(options)
        return
    with tempfile.TemporaryDirectory() as work:
        prepare(options, Path(work))
        results = measure(options)
    report(results, options)


def report(results: dict[str, NDArray[np.float64]], options: argparse.Namespace) -> None:
    """Print each contender's speed and its ratio to ours."""
    totals = {name: turns.sum(axis=0) for name, turns in results.items()}
    speeds = {name: (tokens / s, tokens / cpu_s) for name, (s, cpu_s, tokens) in totals.items()}
    ours = speeds["transduce"]
    rate = matrix_rate() if options.device == "cuda" else None
    if rate:
        print(f"the device multiplies at {rate / 1e12:.0f} TFLOP/s")
    for name, (speed, cpu_speed) in speeds.items():
        line = f"{speed:10,.0f} tokens/s  {speed / ours[0]:.3f} of ours  "
        if rate:
            line += f"{operations_per_token(options) * speed / rate:6.1%} of that rate"
        else:
            line += f"{cpu_speed:10,.0f} tokens/CPU-s  {cpu_speed / ours[1]:.3f} of ours"
        print(f"{line}  {name}")


def operations_per_token(options: argparse.Namespace) -> float:
    """Count what a step computes for each source or target token."""
    return cost_of(settings(options).model, length=32).training_operations_per_token / 2


def matrix_rate(size: int = 8192, times: int = 20) -> float:
    """Measure operations a second of a large product in bfloat16."""
    a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    for repeats in (3, times):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(repeats):
            a @ a
        torch.cuda.synchronize()
    return 2 * size**3 * times / (time.perf_counter() - start)


if __name__ == "__main__":
    main()
