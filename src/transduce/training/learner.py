"""One step of training: forward, loss, backward, and Adam (§5.3, §5.4)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.config.schema import Config
from transduce.data.batch import Batch
from transduce.data.loader import Share
from transduce.errors import TransduceError
from transduce.models.base import Learnable
from transduce.training.distributed import Processes
from transduce.training.guard import Guard
from transduce.training.loss import smoothed_loss
from transduce.training.machine import Machine
from transduce.training.optimiser import Gradients, adam


@dataclass(frozen=True)
class Made:
    """What became of a step, still on the device."""

    loss: Tensor  # [], smoothed, nats a target token
    gradient_norm: Tensor  # [], before clipping
    skipped: Tensor  # [], 1 if it was not taken


class Learner:
    """The model with its gradients and its optimiser."""

    def __init__(self, model: Learnable, config: Config, machine: Machine) -> None:
        self.model = model
        self.optimiser = adam(model, config.training)
        self.guard = Guard(machine.device)
        self.max_tokens: int | None = None  # padded, at a time; lowered when memory runs out
        self._config = config
        self._machine = machine
        self._gradients = Gradients(model)

    def step(self, share: Share, *, number: int, rate: float, processes: Processes) -> Made:
        """Learn from what all processes take in this step, as if it were one batch.

        The loss is a mean over all target tokens, however they are dealt to batches and processes.
        """
        loss = self._gradient_in_memory(share, number, processes)
        processes.meet()
        totals = torch.stack([loss])
        processes.sum(totals)
        processes.sum(self._gradients.flat)
        norm = self._gradients.clip(self._config.training.clip_norm)
        skipped = self.guard.judge(totals[0], norm)
        self._update(rate, skipped)
        return Made(totals[0], norm, skipped)

    def _gradient_in_memory(self, share: Share, number: int, processes: Processes) -> Tensor:
        """Compute the gradient; where memory does not suffice, in smaller pieces from now on."""
        while True:
            try:
                return self._gradient(share, number, processes)
            except torch.OutOfMemoryError as full:
                largest = max(_padded(piece) for piece in self._pieces(share))
                if all(batch.src.size(0) == 1 for batch in self._pieces(share)):
                    raise TransduceError(
                        f"memory does not suffice for one sentence pair of {largest:,} tokens; "
                        "choose a smaller model or lower model.max_positions"
                    ) from full
                self.max_tokens = largest // 2
            if self._machine.device.type == "cuda":
                torch.cuda.empty_cache()

    def _gradient(self, share: Share, number: int, processes: Processes) -> Tensor:
        self._gradients.flat.zero_()
        total = torch.zeros((), device=self._machine.device)
        self.model.train()
        for index, piece in enumerate(self._pieces(share)):
            # What dropout draws follows from the step alone, so a checkpoint need not hold it.
            first = index * processes.world + processes.rank
            torch.manual_seed(_mixed(self._config.run.seed, number, first))
            batch = piece.to(self._machine.device)
            with self._machine.arithmetic():
                states = _decoder_states(self.model, batch.src, batch.tgt_in)  # [B, T, d_model]
                loss, _ = smoothed_loss(
                    states,
                    self.model.projection,
                    batch.tgt_out,
                    eps_ls=self._config.training.eps_ls,
                )
            mean = loss / share.tgt_tokens
            torch.autograd.backward(mean)
            total += mean.detach()
        return total

    def _pieces(self, share: Share) -> list[Batch]:
        if self.max_tokens is None:
            return share.batches
        return [piece for batch in share.batches for piece in batch.split(self.max_tokens)]

    def _update(self, rate: float, skipped: Tensor) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        # The fused kernel does nothing where this is 1: no one waits to learn whether it is.
        self.optimiser.found_inf = skipped  # type: ignore[attr-defined]
        self.optimiser.grad_scale = None  # type: ignore[attr-defined]
        self.optimiser.step()


def _decoder_states(model: Learnable, src: Tensor, tgt_in: Tensor) -> Tensor:
    return model.decode_states(model.encode(src), tgt_in)


@torch.no_grad()
def dev_loss(
    model: Learnable, batches: list[Batch], machine: Machine, processes: Processes
) -> float:
    """Return the loss without smoothing, in nats a target token, over all processes' batches.

    One that is not a number is infinite: no other is worse.
    """
    model.eval()
    totals = torch.zeros(2, device=machine.device)
    for batch in batches:
        placed = batch.to(machine.device)
        with machine.arithmetic():
            states = _decoder_states(model, placed.src, placed.tgt_in)
            _, nll = smoothed_loss(states, model.projection, placed.tgt_out, eps_ls=0.0)
        totals += torch.stack([nll, torch.full_like(nll, batch.tgt_tokens)])
    processes.sum(totals)
    loss, tokens = totals.tolist()
    return float(loss / tokens) if math.isfinite(loss) else math.inf


def _padded(batch: Batch) -> int:
    return max(batch.src.numel(), batch.tgt_out.numel())


def _mixed(seed: int, step: int, part: int) -> int:
    """Make one seed of three numbers, a different one for each step and part of it."""
    return (seed * 1_000_003 + step * 8191 + part) % 2**63
