"""Peak memory of the smoothed loss, forward and backward, beside the plain one of torch.

    python benchmarks/loss_memory.py [--rows 25000] [--vocab-size 37000] [--d-model 512]

What counts is the peak of all that is allocated between the call of the loss and the end of its
backward pass, above what was allocated before the call: the logits or parts of them, every buffer,
and the gradients of the states and of the projection. One logits tensor is rows × vocabulary
entries in the precision of the products. On the CPU that is float32, and the peak is that of the
process's resident memory; where there is a CUDA device it is bfloat16 too, with float32 weights
under autocast, and the peak is that of torch's allocator. Each measurement is a process of its own.

The claim: ours needs at most 1.3 logits tensors besides the gradients.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from transduce.text.special_ids import PAD_ID
from transduce.training.step.loss import smoothed_loss

EPS_LS = 0.1
CLAIM = 1.3


def ours(states: Tensor, projection: Tensor, targets: Tensor) -> Tensor:
    """Return the loss of `transduce train`."""
    loss, _ = smoothed_loss(states, projection, targets, eps_ls=EPS_LS)
    return loss


def plain(states: Tensor, projection: Tensor, targets: Tensor) -> Tensor:
    """Return the loss as most people write it."""
    return F.cross_entropy(
        F.linear(states, projection),
        targets,
        ignore_index=PAD_ID,
        label_smoothing=EPS_LS,
        reduction="sum",
    )


LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {"ours": ours, "plain": plain}


def resident(field: str) -> int:
    """Read one entry of this process's memory statistics, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))


def peak(options: argparse.Namespace) -> int:
    """Run one loss once; return its peak memory in bytes."""
    device = options.device
    states = torch.randn(options.rows, options.d_model, device=device)
    projection = torch.randn(options.vocab_size, options.d_model, device=device)
    targets = torch.randint(1, options.vocab_size, (options.rows,), device=device)
    run_once(options, states[:2], projection[:8], targets[:2] % 7 + 1)  # loads what is loaded once
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run_once(options, states, projection, targets)
        return torch.cuda.max_memory_allocated() - before
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = resident("VmRSS:")
    run_once(options, states, projection, targets)
    return resident("VmHWM:") - before


def run_once(
    options: argparse.Namespace, states: Tensor, projection: Tensor, targets: Tensor
) -> None:
    """Run forward and backward."""
    weights = projection.detach().requires_grad_()
    reached = states.detach().requires_grad_()
    with torch.autocast(options.device, torch.bfloat16, enabled=options.device == "cuda"):
        loss = LOSSES[options.loss](reached, weights, targets)
    torch.autograd.backward(loss)


def main() -> None:
    """Compare both losses, or run one of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=25_000)
    parser.add_argument("--vocab-size", type=int, default=37_000)
    parser.add_argument("--d-model", type=int, default=512)
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    parser.add_argument("--devices", nargs="+", default=devices)
    inner = parser.add_argument_group("used by the program when it starts itself")
    inner.add_argument("--device")
    inner.add_argument("--loss", choices=LOSSES)
    options = parser.parse_args()
    if options.loss:
        print(peak(options))
        return
    worst = 0.0
    for device in options.devices:
        number = 2 if device == "cuda" else 4
        logits = number * options.rows * options.vocab_size
        gradients = 4 * options.d_model * (options.rows + options.vocab_size)
        print(
            f"{device}: one logits tensor is {logits / 2**20:,.0f} MiB, "
            f"the gradients are {gradients / 2**20:,.0f} MiB"
        )
        for loss in LOSSES:
            needed = int(
                subprocess.check_output(
                    [
                        sys.executable,
                        __file__,
                        *sys.argv[1:],
                        f"--device={device}",
                        f"--loss={loss}",
                    ]
                )
            )
            ratio = (needed - gradients) / logits
            print(
                f"{needed / 2**20:8,.0f} MiB, {ratio:.2f} logits tensors besides gradients: {loss}"
            )
            worst = max(worst, ratio) if loss == "ours" else worst
    print(f"ours needs at most {worst:.2f} logits tensors (claim: at most {CLAIM})")
    sys.exit(worst > CLAIM)


if __name__ == "__main__":
    main()
