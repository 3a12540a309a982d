"""What an adaptive softmax would gain: torch's beside the loss of `transduce train`.

    python benchmarks/adaptive_softmax.py [--device cpu] [--tokens 2048] [--vocabulary 37000]

Forward and backward of the output layer and its loss, per step, for states of width 512 and targets
that follow Zipf's law, rank^-1, as subwords roughly do. On the CPU the time is that of all threads
together, which other processes disturb little. The adaptive softmax (Grave et al. 2017) has a head
of 4,000 frequent entries and two clusters of rare ones, projected to d_model / 4 and / 16.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from transduce.text.special_ids import EOS_ID
from transduce.training.step.loss import smoothed_loss

D_MODEL, ROUNDS = 512, 7


def seconds(step: Callable[[], Tensor], device: str) -> float:
    """Return the least time of a step, forward and backward."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    times = []
    for _ in range(ROUNDS):
        start = clock()
        torch.autograd.backward(step())
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(clock() - start)
    return min(times[1:])


def main() -> None:
    """Time both on the same states and targets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tokens", type=int, default=2_048)
    parser.add_argument("--vocabulary", type=int, default=37_000)
    options = parser.parse_args()
    torch.manual_seed(0)
    size, device = options.vocabulary, options.device
    states = torch.randn(options.tokens, D_MODEL, device=device, requires_grad=True)
    projection = nn.Parameter(torch.randn(size, D_MODEL, device=device) / D_MODEL**0.5)
    likelihood = 1 / torch.arange(1, size - EOS_ID, dtype=torch.float64)
    targets = torch.multinomial(likelihood, options.tokens, replacement=True) + EOS_ID + 1
    targets = targets.to(device)
    adaptive = nn.AdaptiveLogSoftmaxWithLoss(D_MODEL, size, [4_000, 16_000]).to(device)
    steps: dict[str, Callable[[], Tensor]] = {
        "ours, all entries, label smoothing": lambda: smoothed_loss(
            states, projection, targets, eps_ls=0.1
        )[0],
        "torch's adaptive softmax, no smoothing": lambda: adaptive(states, targets).loss,
    }
    found = {name: seconds(step, device) for name, step in steps.items()}
    ours = next(iter(found.values()))
    print(f"{options.tokens:,} tokens, {size:,} entries, d_model {D_MODEL}, {device}")
    for name, taken in found.items():
        print(f"{name}: {1000 * taken:.1f} ms, {ours / taken:.1f} times as fast as ours")


if __name__ == "__main__":
    main()
