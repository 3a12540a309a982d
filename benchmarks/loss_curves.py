"""Whether the fast path of a CUDA device trains as plain float32 does: both curves, step by step.

    python benchmarks/loss_curves.py --src train.en --tgt train.de --out FOLDER [--shape base]
        [--device cuda] [--steps 500] [--batch-tokens 8192] [--yardsticks bf16 regrouped]

The models start from the same weights and are trained on the same sentence pairs in every step,
with the same learning rates and without dropout, so that nothing but the arithmetic differs:

- transduce: the code of `transduce train`. On a CUDA device that is packed sequences, bfloat16, our
  own kernels, compiled layers, recorded steps; on the CPU packed sequences in float32.
- float32: what most people would write. The same pairs, padded, in a few pieces of similar
  lengths; kernel by kernel, attention step by step as in eq. 1, torch's `cross_entropy` of all
  logits and its Adam; no kernel of ours, no TF32.
- bf16, a yardstick: the same under torch's autocast to bfloat16, which shows how far that precision
  alone takes a curve from float32.
- regrouped, a yardstick on request: float32 once more with smaller pieces, which shows how far
  apart two curves get whose sums are merely rounded in another order.

Differences are from float32. FOLDER gets curves.csv and curves.png.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from train_throughput import prepare

from transduce.config.presets import preset_named
from transduce.config.schema import Config
from transduce.data.batch import Batch
from transduce.data.batching import EpochPlan, Indices
from transduce.data.loader import Loader, StepBatches
from transduce.data.store import Store
from transduce.models.build import build_model
from transduce.models.transformer.model import Transformer
from transduce.nn.feed_forward import FeedForward
from transduce.nn.mixers.attention import AttentionRecorder
from transduce.text.special_ids import PAD_ID
from transduce.training.distributed import Processes
from transduce.training.step.machine import Machine, choose_machine
from transduce.training.step.schedule import Spent, learning_rate
from transduce.training.step.train_step import TrainStep

PIECES = 2
"""A plain step is padded in about this many pieces, or a few more."""
PRINTED_STEPS = 50
SMOOTHED_STEPS = 10
COLOURS = {"transduce": "#3b6fb6", "float32": "#222222", "bf16": "#d1495b", "regrouped": "#e09f3e"}

Numbers = NDArray[np.float64]


class Plain:
    """A model that is trained by torch's own operations alone."""

    def __init__(self, config: Config, machine: Machine) -> None:
        self._machine = machine
        self._eps_ls = config.training.eps_ls
        model = build_model(config.model).to(machine.device).train()
        assert isinstance(model, Transformer)
        self._model = model
        for part in self._model.modules():
            if isinstance(part, FeedForward):
                part.activation = torch.relu  # F.relu would be joined to the product before it
        self._adam = torch.optim.Adam(
            self._model.parameters(),
            betas=(config.training.beta_1, config.training.beta_2),
            eps=config.training.epsilon,
        )

    def step(self, pieces: Sequence[Batch], rate: float) -> Tensor:
        """Train on all pieces as if they were one batch; return the loss before the update."""
        tokens = sum(piece.tgt_tokens for piece in pieces)
        self._adam.zero_grad()
        losses = [self._backward(piece.to(self._machine.device), tokens) for piece in pieces]
        for group in self._adam.param_groups:
            group["lr"] = rate
        self._adam.step()
        return torch.stack(losses).sum()

    def _backward(self, piece: Batch, tokens: int) -> Tensor:
        eq_1 = AttentionRecorder()
        with self._machine.autocasting():
            memory = self._model.encode(piece.src, attend=eq_1)
            logits = self._model.decode(memory, piece.tgt_in, attend=eq_1)  # [B, T, V]
            loss = F.cross_entropy(
                logits.flatten(0, 1),
                piece.tgt_out.flatten(),
                ignore_index=PAD_ID,
                label_smoothing=self._eps_ls,
                reduction="sum",
            )
        mean = loss / tokens
        torch.autograd.backward(mean)
        return mean.detach()


def train(options: argparse.Namespace, config: Config, machine: Machine) -> Numbers:
    """Have all models make each step in turn; return their losses, one row a step."""
    ours = TrainStep(build_model(config.model).to(machine.device), config, machine)
    precisions = {name: torch.bfloat16 if name == "bf16" else None for name in options.names[1:]}
    plain = {n: Plain(config, Machine(machine.device, dtype)) for n, dtype in precisions.items()}
    losses, skipped = [], []
    print_line(
        "step", *options.names, *(f"Δ {name}" for name in options.names if name != "float32")
    )
    for number, (share, pieces) in enumerate(islice(steps(options, config), options.steps), 1):
        rate = learning_rate(config.training, config.model.d_model, number, Spent(number, 0.0, 0.0))
        made = ours(share, number=number, rate=rate, processes=Processes())
        smaller = [part for piece in pieces for part in piece.split(options.batch_tokens // 8)]
        theirs = [
            model.step(smaller if name == "regrouped" else pieces, rate)
            for name, model in plain.items()
        ]
        losses.append(torch.stack([made.loss, *theirs]))
        skipped.append(made.skipped)
        if number == 1 or number % PRINTED_STEPS == 0:
            fast, float32, *others = losses[-1].tolist()
            apart = (f"{loss - float32:+.4f}" for loss in (fast, *others))
            print_line(number, *(f"{loss:.4f}" for loss in (fast, float32, *others)), *apart)
    print(f"steps that transduce skipped as spikes: {torch.stack(skipped).sum():.0f}")
    return torch.stack(losses).double().cpu().numpy()


def print_line(first: object, *others: str) -> None:
    """Print a line of the table."""
    print(f"{first!s:>5}" + "".join(f"{other:>13}" for other in others), flush=True)


def steps(options: argparse.Namespace, config: Config) -> Iterator[tuple[StepBatches, list[Batch]]]:
    """Stream the pairs of each step: packed, and the same ones padded."""
    store = Store.open(options.store)
    loader = Loader(
        store,
        max_tokens=options.batch_tokens,
        pin=options.device == "cuda",
        max_length=config.model.max_length,
        packed=True,
    )
    for epoch in count():
        plan = loader.plan(epoch)
        for share in loader.steps(epoch):
            pairs = plan.batch(share.first)
            pieces = padded(store, pairs, max_tokens=options.batch_tokens // PIECES)
            is_same = map(torch.equal, contents(share.batches), contents(pieces))
            assert all(is_same), f"batch {share.first} of epoch {epoch} is not the same padded"
            yield share, pieces


def padded(store: Store, pairs: Indices, *, max_tokens: int) -> list[Batch]:
    """Pad the pairs in pieces of similar lengths, with at most this many tokens on either side."""
    src, tgt = (side.lengths_of(pairs) + 1 for side in (store.src, store.tgt))
    plan = EpochPlan.padded(src, tgt, max_tokens=max_tokens, seed=0, epoch=0).renumbered(pairs)
    return [Batch.padded(store, plan.batch(index)) for index in range(len(plan))]


def contents(batches: list[Batch]) -> list[Tensor]:
    """Sort the ids of the source, of the target input and of the target output."""
    sides = ([b.src for b in batches], [b.tgt_in for b in batches], [b.tgt_out for b in batches])
    return [torch.cat([ids[ids != PAD_ID] for ids in side]).sort().values for side in sides]


def settings(options: argparse.Namespace) -> Config:
    """Take a preset without dropout, with the paper's schedule and the learned vocabulary.

    In a shorter warm-up than the paper's every rounding grows, and no two curves agree for long.
    """
    return preset_named(options.shape).with_changes(
        {
            "model": {"p_drop": 0.0, "vocab_size": options.vocab_size},
            "training": {"schedule": "paper", "warmup_steps": 4000, "eps_ls": 0.1},
            "run": {"device": options.device},
        }
    )


def report(names: list[str], losses: Numbers) -> Numbers:
    """Print how far apart the smoothed curves are; return those, one a row."""
    window = min(SMOOTHED_STEPS, len(losses))
    smooth = np.stack([np.convolve(c, np.full(window, 1 / window), "valid") for c in losses.T])
    float32 = smooth[names.index("float32")]
    print(f"float32, mean of {window} steps: from {float32[0]:.4f} to {float32[-1]:.4f}")
    for name, curve in zip(names, smooth, strict=True):
        if name != "float32":
            apart = curve - float32
            print(
                f"{name} − float32 of such means: at most ±{np.abs(apart).max():.1e}, "
                f"on average ±{np.abs(apart).mean():.1e}, with its sign {apart.mean():+.1e}"
            )
    return smooth


def draw(names: list[str], losses: Numbers, smooth: Numbers, path: Path) -> None:
    """Draw the curves over each other, and below them the differences of the smoothed ones."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6.4), dpi=150, layout="constrained")
    above, below = figure.subplots(2, sharex=True, height_ratios=(2.5, 1))
    made = np.arange(1, len(losses) + 1)
    middles = made[: smooth.shape[1]] + (len(losses) - smooth.shape[1]) / 2
    for index, (name, curve) in enumerate(zip(names, losses.T, strict=True)):
        above.plot(made, curve, color=COLOURS[name], linewidth=3 / (1 + index), label=name)
    for name, curve in zip(names, smooth - smooth[names.index("float32")], strict=True):
        below.plot(middles, curve, color=COLOURS[name], linewidth=1.2)
    above.set_title("loss, nats a target token", loc="left", fontsize=10.5)
    above.legend(fontsize=9, edgecolor="w")
    title = f"difference to float32, mean of {len(losses) - smooth.shape[1] + 1} steps"
    below.set_title(title, loc="left", fontsize=10.5)
    below.set_xlabel("step", fontsize=9)
    for panel in (above, below):
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(color="#e6e6e6", linewidth=0.8)
    figure.savefig(path, backend="agg")


def main() -> None:
    """Train all models, then compare them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--tgt", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=29_000, help="how many pairs to read")
    parser.add_argument("--shape", default="base", choices=["tiny", "small", "base", "big"])
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--batch-tokens", type=int, default=8192, help="on either side")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--yardsticks", nargs="*", default=["bf16"], choices=["bf16", "regrouped"])
    options = parser.parse_args()
    options.names = ["transduce", "float32", *options.yardsticks]
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_float32_matmul_precision("highest")  # no TF32
    with tempfile.TemporaryDirectory() as work:
        prepare(options, Path(work))
        config = settings(options)
        machine = choose_machine(config.run)
        how = "compiled and recorded" if machine.uses_cuda_graphs else "kernel by kernel"
        print(f"transduce: {machine.device}, {machine.precision}, {how}")
        losses = train(options, config, machine)
    numbered = np.column_stack([np.arange(1, len(losses) + 1), losses])
    np.savetxt(
        options.out / "curves.csv",
        numbered,
        ["%d", *["%.7g"] * len(options.names)],
        delimiter=",",
        header=",".join(["step", *options.names]),
        comments="",
    )
    smooth = report(options.names, losses)
    draw(options.names, losses, smooth, options.out / "curves.png")


if __name__ == "__main__":
    main()
