"""Training in several processes, as `torchrun` starts them: one model, one gradient.

Each process computes the gradient of its batches, and the gradients are summed. Nothing is
exchanged while a gradient is computed, so a process that runs out of memory can start over without
the others noticing.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from transduce.errors import TransduceError


class LostProcessError(TransduceError):
    """Another process has died or hangs."""


@dataclass(frozen=True)
class Processes:
    """One process among `world`; the first, of rank 0, is the only one that writes and prints."""

    rank: int = 0
    world: int = 1
    host_group: "dist.ProcessGroup | None" = None  # for decisions on the host, over Gloo
    timeout_s: float = 1800.0

    @property
    def is_first(self) -> bool:
        """Whether this process writes and prints."""
        return self.rank == 0

    def barrier(self) -> None:
        """Wait for every process; raise an error that names one that does not come."""
        if self.world > 1:
            with self._reporting_lost_process():
                dist.monitored_barrier(self.host_group, timedelta(seconds=self.timeout_s))

    def sum(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all processes."""
        if self.world > 1:
            with self._reporting_lost_process():
                dist.all_reduce(tensor)

    def vote(self, *wishes: bool, seconds: float) -> tuple[list[bool], float]:
        """Return for each wish whether any process has it, and the first process's `seconds`."""
        if self.world == 1:
            return list(wishes), seconds
        clock = seconds if self.is_first else 0.0
        votes = torch.tensor([*map(float, wishes), clock], dtype=torch.float64)
        self.barrier()
        with self._reporting_lost_process():
            dist.all_reduce(votes, group=self.host_group)
        *counted, time = votes.tolist()
        return [vote > 0 for vote in counted], time

    def broadcast(self, value: Any) -> Any:
        """Return the first process's value in every process; JSON must be able to express it."""
        if self.world == 1:
            return value
        text = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        size = torch.tensor([text.numel()])
        with self._reporting_lost_process():
            dist.broadcast(size, 0, self.host_group)
            if not self.is_first:
                text = torch.empty(int(size), dtype=torch.uint8)
            dist.broadcast(text, 0, self.host_group)
        return json.loads(bytes(text.tolist()))

    def copy_from_first(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite tensors with those of the first process."""
        if self.world > 1:
            with self._reporting_lost_process():
                for tensor in tensors:
                    dist.broadcast(tensor, 0)

    def _reporting_lost_process(self) -> AbstractContextManager[None]:
        return reporting_lost_process(self.rank, self.world)


@dataclass(frozen=True)
class ProcessRank:
    """Which of several processes this is, and where they meet, as torchrun sets them."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    address: str = "localhost"
    port: int = 0


@contextmanager
def joined(own: ProcessRank, *, device: torch.device, timeout_s: float) -> Iterator[Processes]:
    """Join the processes that torchrun started, over NCCL on GPUs and Gloo elsewhere."""
    if own.world == 1:
        yield Processes()
        return
    timeout = timedelta(seconds=timeout_s)
    with reporting_lost_process(own.rank, own.world):
        dist.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            store=_fresh_store(own, timeout_s),
            rank=own.rank,
            world_size=own.world,
            timeout=timeout,
        )
        host_group = dist.new_group(backend="gloo", timeout=timeout)
    try:
        yield Processes(own.rank, own.world, host_group, timeout_s)
    finally:
        dist.destroy_process_group()


def _fresh_store(own: ProcessRank, timeout_s: float) -> Any:
    """Connect to a key-value store that belongs to this attempt only.

    torchrun's store survives a restart, with the addresses of processes that have died. So the
    first process opens a new store and writes its port there; the others try the port they find
    until a store answers.
    """
    store_at: Any = partial(dist.TCPStore, own.address)  # type: ignore[attr-defined]
    timeout = timedelta(seconds=timeout_s)
    of_torchrun = store_at(own.port, is_master=False, timeout=timeout)
    if own.rank == 0:
        store = store_at(0, is_master=True, wait_for_workers=False, timeout=timeout)
        of_torchrun.set(_PORT, str(store.port))
        return store
    end = time.monotonic() + timeout_s
    while True:
        try:
            store = store_at(int(of_torchrun.get(_PORT)), is_master=False, timeout=_ONE_TRY)
        except dist.DistNetworkError:
            if time.monotonic() > end:
                raise
        else:
            store.set_timeout(timeout)
            return store


_ONE_TRY = timedelta(seconds=1)
_PORT = "transduce/port"


@contextmanager
def reporting_lost_process(rank: int, world: int) -> Iterator[None]:
    """Turn the errors that torch raises when another process is gone into a LostProcessError."""
    try:
        yield
    except torch.OutOfMemoryError:  # a RuntimeError too, but this process's own
        raise
    except RuntimeError as lost:
        reason = str(lost).strip().splitlines()[0]
        raise LostProcessError(
            f"process {rank} of {world} lost contact with another one, which was killed or hangs "
            f"({reason}); run the same command again to resume from the last checkpoint"
        ) from lost
