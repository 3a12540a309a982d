"""Training throughput beside `torch.nn.Transformer` and transformers' MarianMT, on real lengths.

    python benchmarks/train_throughput.py --src train.en --tgt train.de [--shape small]
        [--device cpu] [--threads 2] [--batch-tokens 4096] [--batches 8] [--rounds 9]
        [--contenders transduce MarianMT]

All train the same shape on the same batches, with dropout 0.1 where each places it: forward,
label-smoothed loss, backward, Adam; ours by the very code of `transduce train`, the others in the
loop that most people write. Counted are real source and target tokens alone. Each contender runs in
its own process, with the settings that its user would have. They take turns batch by batch, so that
a noisy machine disturbs all alike; a batch's time is its median over the rounds. Beside it stands
the time of all threads of the process together, which says what a step costs where others use the
machine too. On a CUDA device all compute in bfloat16 autocast.
"""

import argparse
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import chain, islice
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from transduce.config.presets import preset_named
from transduce.config.schema import Config, ModelConfig
from transduce.data.corpus import TwoFiles, read_lines, read_pairs
from transduce.data.loader import Loader, Share
from transduce.data.store import Recipe, Store, open_or_build
from transduce.models.build import build_model
from transduce.nn.positions import sinusoids
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID
from transduce.text.tokenizer import Tokenizer
from transduce.training.distributed import Processes
from transduce.training.learner import Learner
from transduce.training.machine import choose_machine
from transduce.training.memory import keep_freed_memory

EPS_LS, RATE = 0.1, 1e-4
CONTENDERS = {
    "cpu": ["transduce", "nn.Transformer", "MarianMT"],
    "cuda": [
        "transduce",
        "nn.Transformer",
        "nn.Transformer, compiled",
        "MarianMT",
    ],
}
Step = Callable[[Share], object]


def ours(config: Config) -> Step:
    """Return a step as `transduce train` takes it."""
    keep_freed_memory()
    machine = choose_machine(config.run)
    learner = Learner(build_model(config.model).to(machine.device), config, machine)
    return lambda share: learner.step(share, number=1, rate=RATE, processes=Processes())


def theirs(model: nn.Module, device: str) -> Step:
    """Return a step of a peer, as in most training loops."""
    model.to(device).train()
    adam = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9)

    def step(share: Share) -> None:
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

    def __init__(self, shape: ModelConfig) -> None:
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

    def __init__(self, shape: ModelConfig) -> None:
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
    """Build what is measured under this name."""
    torch.manual_seed(0)
    match name:
        case "transduce":
            return ours(config)
        case "nn.Transformer":
            return theirs(TorchTransformer(config.model), config.run.device)
        case "nn.Transformer, compiled":
            model = TorchTransformer(config.model)
            model.compile(dynamic=True)
            return theirs(model, config.run.device)
        case _:
            return theirs(Marian(config.model), config.run.device)


def serve(options: argparse.Namespace) -> None:
    """Be one contender: train on the batch that each line of the standard input names."""
    torch.set_num_threads(options.threads)
    shares = taken(options)
    step = contender(options.contender, settings(options))
    for line in sys.stdin:
        start, cpu_start = time.perf_counter(), time.process_time()
        step(shares[int(line)])
        if options.device == "cuda":
            torch.cuda.synchronize()
        print(time.perf_counter() - start, time.process_time() - cpu_start, flush=True)


def taken(options: argparse.Namespace) -> list[Share]:
    """Take the first batches, the same ones in every process."""
    loader = Loader(Store.open(options.store), max_tokens=options.batch_tokens)
    return list(islice(loader.steps(0), options.batches))


def settings(options: argparse.Namespace) -> Config:
    """Take a preset, with dropout alike for all and the vocabulary that was learnt."""
    return preset_named(options.shape).with_changes(
        {
            "model": {"p_drop": 0.1, "vocab_size": options.vocab_size},
            "training": {"eps_ls": EPS_LS},
            "run": {"device": options.device},
        }
    )


def prepare(options: argparse.Namespace, work: Path) -> None:
    """Learn a vocabulary and build the store; note what came of it in the options."""
    paths = work / "src", work / "tgt"
    for given, path in zip((options.src, options.tgt), paths, strict=True):
        lines = islice(read_lines(given), options.pairs)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    source, vocabulary = TwoFiles(*paths), work / "tokenizer.json"
    size = preset_named(options.shape).model.vocab_size
    tokenizer = Tokenizer.learn(chain.from_iterable(read_pairs(source)), vocab_size=size)
    tokenizer.save(vocabulary)
    open_or_build(Recipe((source,), vocabulary), work / "cache")
    options.store = next(path.parent for path in work.glob("cache/*/manifest"))
    options.vocab_size = len(tokenizer)


def measure(options: argparse.Namespace) -> dict[str, NDArray[np.float64]]:
    """Let the contenders take turns; return each one's seconds and CPU seconds, by batch."""
    given = {
        name: getattr(options, name)
        for name in ("shape", "device", "threads", "batch_tokens", "batches", "store", "vocab_size")
    }
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    # Threads that wait for work would otherwise take the time of whoever has some.
    command = ["env", "OMP_WAIT_POLICY=passive", sys.executable, __file__, *arguments]
    running = {
        name: subprocess.Popen(
            [*command, f"--contender={name}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in options.contenders or CONTENDERS[options.device]
    }
    times: dict[str, list[list[list[float]]]] = {name: [] for name in running}
    for _ in range(1 + options.rounds):
        for name in running:
            times[name].append([])
        for batch in range(options.batches):
            for name, process in running.items():
                times[name][-1].append(ask(process, batch))
    for process in running.values():
        process.communicate()
    # The first round warms up.
    return {name: np.median(np.array(rounds)[1:], axis=0) for name, rounds in times.items()}


def ask(process: "subprocess.Popen[str]", batch: int) -> list[float]:
    """Have a contender train on a batch; return seconds and CPU seconds."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{batch}\n")
    process.stdin.flush()
    return [float(number) for number in process.stdout.readline().split()]


def main() -> None:
    """Compare, or be one of those compared."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--src", type=Path)
    parser.add_argument("--tgt", type=Path)
    parser.add_argument("--pairs", type=int, default=29_000, help="read so many of the files")
    parser.add_argument("--shape", default="small", choices=["tiny", "small", "base", "big"])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-tokens", type=int, default=4096, help="on either side")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--contenders", nargs="+", metavar="NAME", help="instead of all")
    inner = parser.add_argument_group("used by the program when it starts itself")
    inner.add_argument("--contender")
    inner.add_argument("--store", type=Path)
    inner.add_argument("--vocab-size", type=int)
    options = parser.parse_args()
    if options.contender:
        serve(options)
        return
    with tempfile.TemporaryDirectory() as work:
        prepare(options, Path(work))
        shares = taken(options)
        options.batches = len(shares)
        seconds = measure(options)
    tokens = sum(share.src_tokens + share.tgt_tokens for share in shares)
    batches = [share.batches[0] for share in shares]
    positions = sum(batch.src.numel() + batch.tgt_out.numel() for batch in batches)
    print(f"{len(batches)} batches, {tokens:,} tokens, padding {1 - tokens / positions:.1%}")
    report(seconds, tokens)


def report(seconds: dict[str, NDArray[np.float64]], tokens: int) -> None:
    """Print each contender's speed and its ratio to ours."""
    ours = seconds["transduce"].sum(axis=0)
    for name, by_batch in seconds.items():
        total = by_batch.sum(axis=0)
        ratio, cpu_ratio = ours / total
        print(
            f"{tokens / total[0]:10,.0f} tokens/s  {ratio:.3f} of ours  "
            f"{tokens / total[1]:10,.0f} tokens/CPU-s  {cpu_ratio:.3f} of ours  {name}"
        )


if __name__ == "__main__":
    main()
