"""One training step: forward, loss, backward, and the optimiser (§5.3, §5.4)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from transduce.config.schema import Config, TrainingConfig
from transduce.data.batch import Batch
from transduce.data.loader import StepBatches
from transduce.data.packed_layout import PackedLayout
from transduce.errors import TransduceError
from transduce.hardware.cuda_graphs import GraphedFunction
from transduce.models.base import Seq2Seq
from transduce.nn.kernels.available import register_training_kernels
from transduce.text.special_ids import PAD_ID
from transduce.training.distributed import Processes
from transduce.training.step.loss import smoothed_loss
from transduce.training.step.machine import Machine
from transduce.training.step.muon import Muon
from transduce.training.step.optimiser import Gradients, Optimiser, PlainAdam
from transduce.training.step.schedule_free import ScheduleFreeAdam
from transduce.training.step.spike_guard import SpikeGuard


@dataclass(frozen=True)
class StepResult:
    """The result of a step, still on the device."""

    loss: Tensor  # [], smoothed, in nats per target token
    gradient_norm: Tensor  # [], before clipping
    skipped: Tensor  # [], 1 if the weights are unchanged


class TrainStep:
    """A model with its gradients and its optimiser; calling it trains one step.

    On a CUDA device, a model that reads packed sequences gets rows of one or two sizes: its layers
    are compiled for these, and forward and backward are recorded once for each and then replayed.
    """

    def __init__(self, model: Seq2Seq, config: Config, machine: Machine) -> None:
        self.model = model
        self.guard = SpikeGuard(machine.device)
        self.max_tokens: int | None = None  # padded, computed at once; lowered when memory runs out
        self._config = config
        self._machine = machine
        self._gradients = Gradients(model)
        self.optimiser = make_optimiser(model, config.training, self._gradients)
        self._tokens = torch.ones((), device=machine.device)  # the loss is a mean over these
        self._loss = torch.zeros((), device=machine.device)
        self._recorded: dict[torch.Size, GraphedFunction] = {}  # by the shape of a row
        self._update: Callable[[], Tensor] = self._update_weights
        self._stream: torch.cuda.Stream | None = None  # where work is recorded
        if machine.uses_cuda_graphs:
            self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            self._update = GraphedFunction(self._update_weights, self._stream)
            if model.abilities.packed_sequences:
                register_training_kernels()
                model.compile_layers()

    def __call__(
        self, batches: StepBatches, *, number: int, rate: float, processes: Processes
    ) -> StepResult:
        """Train on the batches of all processes as if they were one.

        The loss is the mean over all their target tokens. If memory runs out, this process starts
        over with smaller pieces.
        """
        is_done = False
        while not is_done:
            self._clear(batches.tgt_tokens)
            try:
                for index, piece in enumerate(self._split(batches.batches)):
                    # Dropout depends only on step and part: checkpoints need no random state.
                    part = index * processes.world + processes.rank
                    self._machine.seed_dropout(_seed(self._config.run.seed, number, part))
                    backward = self._prepared(piece)
                    self._loss += backward()
                is_done = True
            except RuntimeError as fault:
                self._shrink_pieces(batches, fault)
        processes.barrier()
        processes.sum(self._loss)
        processes.sum(self._gradients.flat)
        self.optimiser.set_rate(rate)
        return StepResult(*self._update().unbind())

    def _prepared(self, batch: Batch) -> Callable[[], Tensor]:
        """Return what adds the gradients of a batch: for packed rows a recording."""
        if self._stream is None or batch.layout is None:
            placed = batch.to(self._machine.device)
            parts = (placed.src, placed.tgt_in, placed.tgt_out, placed.layout, placed.links)
            return partial(self._uncompiled_backward(), *parts)
        shape = torch.Size([batch.src.size(1), batch.tgt_out.size(1)])
        if shape not in self._recorded:
            self._recorded[shape] = GraphedFunction(self._packed_backward, self._stream)
        tensors = [batch.src, batch.tgt_in, batch.tgt_out, batch.layout.src, batch.layout.tgt]
        if batch.links is not None:
            tensors.append(batch.links)
        return partial(self._recorded[shape], *tensors)

    def _uncompiled_backward(self) -> Callable[..., Tensor]:
        """Return `_backward` uncompiled: padded batches have ever new shapes to compile for."""
        if self._stream is None:
            return self._backward

        def backward(*parts: Any) -> Tensor:
            with self._machine.uncompiled():
                return self._backward(*parts)

        return backward

    def _packed_backward(
        self,
        src: Tensor,
        tgt_in: Tensor,
        tgt_out: Tensor,
        src_bounds: Tensor,
        tgt_bounds: Tensor,
        links: Tensor | None = None,
    ) -> Tensor:
        """Do as `_backward` for a packed row, from tensors alone, as a recording needs it."""
        return self._backward(src, tgt_in, tgt_out, PackedLayout(src_bounds, tgt_bounds), links)

    def _backward(
        self,
        src: Tensor,
        tgt_in: Tensor,
        tgt_out: Tensor,
        layout: PackedLayout | None,
        links: Tensor | None,
    ) -> Tensor:
        """Add the gradients of a batch; return its part of the mean loss."""
        with self._machine.autocasting():
            guide = () if links is None else (links,)  # installed kinds need not know of links
            found = self.model.training_states(src, tgt_in, layout, *guide)
            loss, _ = smoothed_loss(
                found.states, self.model.projection, tgt_out, eps_ls=self._config.training.eps_ls
            )
            if found.auxiliary is not None:
                loss = loss + found.auxiliary * (tgt_out != PAD_ID).sum()
        mean = loss / self._tokens
        self._gradients.add(mean)
        return mean.detach()

    def dev_loss(self, batches: list[Batch], processes: Processes) -> float:
        """Return the dev loss; if memory runs out, free the recordings and compute it again."""
        try:
            return dev_loss(self.model, self._split(batches), self._machine, processes)
        except torch.OutOfMemoryError:
            self._free_recordings()
        return dev_loss(self.model, self._split(batches), self._machine, processes)

    def _clear(self, tgt_tokens: int) -> None:
        self._gradients.flat.zero_()
        self._loss.zero_()
        self._tokens.fill_(tgt_tokens)
        self.model.train()

    def _split(self, batches: list[Batch]) -> list[Batch]:
        if self.max_tokens is None:
            return batches
        return [piece for batch in batches for piece in batch.split(self.max_tokens)]

    def _shrink_pieces(self, batches: StepBatches, fault: RuntimeError) -> None:
        """Halve `max_tokens` if memory ran out; raise anything else."""
        full = _out_of_memory(fault)
        if full is None:
            compiling = _compiler_error(fault)
            if compiling is None:
                raise fault
            raise compiling from None
        largest = max(self._split(batches.batches), key=_padded_tokens)
        if largest.is_one_pair:
            raise TransduceError(
                f"out of memory for one sentence pair of {_padded_tokens(largest):,} tokens: "
                "choose a smaller model or lower model.max_positions"
            ) from full
        self.max_tokens = _padded_tokens(largest) // 2
        fault.__traceback__ = full.__traceback__ = None  # its frames hold the tensors
        self._free_recordings()

    def _free_recordings(self) -> None:
        """Free the recordings and what was compiled for their shapes."""
        self._recorded.clear()
        if self._stream is not None:
            torch.compiler.reset()
        if self._machine.device.type == "cuda":
            torch.cuda.empty_cache()

    def _update_weights(self) -> Tensor:
        """Take a step unless the guard skips it; return loss, norm and skipped, [3]."""
        norm = self._gradients.clip(self._config.training.clip_norm)
        skipped = self.guard.judge(self._loss, norm)
        self.optimiser.step(skipped)
        return torch.stack([self._loss, norm, skipped])


def make_optimiser(model: Seq2Seq, config: TrainingConfig, gradients: Gradients) -> Optimiser:
    """Create the optimiser that the settings name."""
    match config.optimiser:
        case "adam":
            return PlainAdam(model, config)
        case "muon":
            return Muon(model, config, gradients)
        case "schedule_free":
            return ScheduleFreeAdam(model, config, gradients)


@torch.no_grad()
def dev_loss(model: Seq2Seq, batches: list[Batch], machine: Machine, processes: Processes) -> float:
    """Return the loss without smoothing, in nats per target token, over all processes' batches.

    A loss that is NaN counts as infinite, the worst.
    """
    model.eval()
    totals = torch.zeros(2, device=machine.device)
    for batch in batches:
        placed = batch.to(machine.device)
        with machine.uncompiled(), machine.autocasting():
            found = model.training_states(placed.src, placed.tgt_in, placed.layout)
            _, nll = smoothed_loss(found.states, model.projection, placed.tgt_out, eps_ls=0.0)
        totals += torch.stack([nll, torch.full_like(nll, batch.tgt_tokens)])
    processes.sum(totals)
    loss, tokens = totals.tolist()
    return float(loss / tokens) if math.isfinite(loss) else math.inf


def _out_of_memory(fault: RuntimeError) -> torch.OutOfMemoryError | None:
    """Return the error if memory ran out, also while compiling."""
    for error in (fault, fault.__cause__):
        if isinstance(error, torch.OutOfMemoryError):
            return error
    return None


def _compiler_error(fault: RuntimeError) -> TransduceError | None:
    """Return an error that says what to do, if torch's compiler failed."""
    from torch._dynamo.exc import TorchDynamoException

    if not isinstance(fault, TorchDynamoException):
        return None
    why = " ".join(str(fault).splitlines()[:2])
    return TransduceError(
        f"torch cannot compile the model here ({why}); --set run.compile=false trains without "
        "compiling, more slowly"
    )


def _padded_tokens(batch: Batch) -> int:
    return max(batch.src.numel(), batch.tgt_out.numel())


def _seed(seed: int, step: int, part: int) -> int:
    """Combine three numbers into a seed that differs for each step and each part of it."""
    return (seed * 1_000_003 + step * 8191 + part) % 2**63
