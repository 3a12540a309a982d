"""One step of training: forward, loss, backward, and Adam (§5.3, §5.4)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.config.schema import Config
from transduce.data.batch import Batch
from transduce.data.loader import Share
from transduce.errors import TransduceError
from transduce.models.base import Learnable
from transduce.nn.spans import Layout
from transduce.training.distributed import Processes
from transduce.training.guard import Guard
from transduce.training.loss import smoothed_loss
from transduce.training.machine import Machine
from transduce.training.optimiser import Gradients, adam, set_rate
from transduce.training.recorded import Recorded


@dataclass(frozen=True)
class Made:
    """What became of a step, still on the device."""

    loss: Tensor  # [], smoothed, nats a target token
    gradient_norm: Tensor  # [], before clipping
    skipped: Tensor  # [], 1 if it was not taken


class Learner:
    """The model with its gradients and its optimiser.

    On a CUDA device, batches are rows of one size: the forward pass is compiled for it, and all
    that a step does there is recorded once.
    """

    def __init__(self, model: Learnable, config: Config, machine: Machine) -> None:
        self.model = model
        self.optimiser = adam(model, config.training)
        self.guard = Guard(machine.device)
        self.max_tokens: int | None = None  # padded, at a time; lowered when memory runs out
        self._config = config
        self._machine = machine
        self._gradients = Gradients(model)
        self._tokens = torch.ones((), device=machine.device)  # that the step's loss is a mean over
        self._loss = torch.zeros((), device=machine.device)
        self._recorded: dict[tuple[int, ...], Recorded] = {}
        self._update: Callable[[], Tensor] = self._take_step
        self._aside: torch.cuda.Stream | None = None  # where a step is recorded
        if machine.records:
            model.compile_parts()
            self._aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            self._update = Recorded(self._take_step, self._aside)

    def step(self, share: Share, *, number: int, rate: float, processes: Processes) -> Made:
        """Learn from what all processes take in this step, as if it were one batch.

        The loss is a mean over all target tokens, however they are dealt to batches and processes.
        """
        self._gradient_in_memory(share, number, processes)
        processes.meet()
        processes.sum(self._loss)
        processes.sum(self._gradients.flat)
        set_rate(self.optimiser, rate)
        return Made(*self._update().unbind())

    def dev_loss(self, batches: list[Batch], processes: Processes) -> float:
        """Score the model; recordings hold memory, and must go where it does not suffice."""
        try:
            return dev_loss(self.model, self._split(batches), self._machine, processes)
        except torch.OutOfMemoryError:
            self._make_room()
        return dev_loss(self.model, self._split(batches), self._machine, processes)

    def _gradient_in_memory(self, share: Share, number: int, processes: Processes) -> None:
        """Compute the gradient; where memory does not suffice, in smaller pieces from now on."""
        while True:
            try:
                return self._gradient(share, number, processes)
            except torch.OutOfMemoryError as full:
                largest = max(self._pieces(share), key=_padded)
                if largest.is_one_pair:
                    raise TransduceError(
                        f"memory does not suffice for one sentence pair of {_padded(largest):,} "
                        "tokens; choose a smaller model or lower model.max_positions"
                    ) from full
                self.max_tokens = _padded(largest) // 2
            self._make_room()

    def _gradient(self, share: Share, number: int, processes: Processes) -> None:
        self._gradients.flat.zero_()
        self._loss.zero_()
        self._tokens.fill_(share.tgt_tokens)
        self.model.train()
        for index, piece in enumerate(self._pieces(share)):
            # What dropout draws follows from the step alone, so a checkpoint need not hold it.
            first = index * processes.world + processes.rank
            torch.manual_seed(_mixed(self._config.run.seed, number, first))
            self._loss += self._learn_from(piece)

    def _learn_from(self, batch: Batch) -> Tensor:
        """Add a batch's part to the gradient; return its part of the loss."""
        if batch.layout is None or self._aside is None:
            placed = batch.to(self._machine.device)
            with self._machine.eagerly():
                return self._backward(placed.src, placed.tgt_in, placed.tgt_out, placed.layout)
        shape = (batch.src.size(1), batch.tgt_out.size(1))
        if shape not in self._recorded:
            self._recorded[shape] = Recorded(self._backward_of_row, self._aside)
        bounds = (batch.layout.src, batch.layout.tgt)
        try:
            return self._recorded[shape](batch.src, batch.tgt_in, batch.tgt_out, *bounds)
        except RuntimeError as fault:
            compiling = _while_compiling(fault)
            if compiling is None:
                raise
            raise compiling from None

    def _backward_of_row(
        self, src: Tensor, tgt_in: Tensor, tgt_out: Tensor, src_bounds: Tensor, tgt_bounds: Tensor
    ) -> Tensor:
        return self._backward(src, tgt_in, tgt_out, Layout(src_bounds, tgt_bounds))

    def _backward(
        self, src: Tensor, tgt_in: Tensor, tgt_out: Tensor, layout: Layout | None
    ) -> Tensor:
        with self._machine.arithmetic():
            states = _decoder_states(self.model, src, tgt_in, layout)  # [B, T, d_model]
            loss, _ = smoothed_loss(
                states, self.model.projection, tgt_out, eps_ls=self._config.training.eps_ls
            )
        mean = loss / self._tokens
        self._gradients.add(mean)
        return mean.detach()

    def _pieces(self, share: Share) -> list[Batch]:
        return self._split(share.batches)

    def _split(self, batches: list[Batch]) -> list[Batch]:
        if self.max_tokens is None:
            return batches
        return [piece for batch in batches for piece in batch.split(self.max_tokens)]

    def _make_room(self) -> None:
        """Give back the memory of what was recorded, and what was compiled for its shapes."""
        self._recorded.clear()
        if self._aside is not None:
            torch.compiler.reset()
        if self._machine.device.type == "cuda":
            torch.cuda.empty_cache()

    def _take_step(self) -> Tensor:
        """Take the step unless the guard forbids it; return what there is to tell."""
        norm = self._gradients.clip(self._config.training.clip_norm)
        skipped = self.guard.judge(self._loss, norm)
        # The fused kernel does nothing where this is 1: no one waits to learn whether it is.
        self.optimiser.found_inf = skipped  # type: ignore[attr-defined]
        self.optimiser.grad_scale = None  # type: ignore[attr-defined]
        self.optimiser.step()
        return torch.stack([self._loss, norm, skipped])


def _while_compiling(fault: RuntimeError) -> Exception | None:
    """Return what went wrong in torch's compiler, and what to do about it; None: it was not there.

    Memory that ran out there is memory that ran out.
    """
    from torch._dynamo.exc import TorchDynamoException

    if not isinstance(fault, TorchDynamoException):
        return None
    if isinstance(fault.__cause__, torch.OutOfMemoryError):
        return fault.__cause__
    why = " ".join(str(fault).splitlines()[:2])
    return TransduceError(
        f"torch cannot compile the model here ({why}); --set run.compile=false trains without, "
        "more slowly"
    )


def _decoder_states(model: Learnable, src: Tensor, tgt_in: Tensor, layout: Layout | None) -> Tensor:
    return model.decode_states(model.encode(src, layout), tgt_in, layout)


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
        with machine.eagerly(), machine.arithmetic():
            states = _decoder_states(model, placed.src, placed.tgt_in, placed.layout)
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
