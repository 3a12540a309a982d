"""Several processes that learn together, as `torchrun` starts them: one model, one gradient.

Each process computes the gradient of its share, and the shares are summed. Nothing is exchanged
while a gradient is being computed, so one process may run out of memory and try again without the
others noticing.
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
    """Another process died or hangs."""


@dataclass(frozen=True)
class Processes:
    """One process among `world`; the first, of rank 0, is the only one that writes and prints."""

    rank: int = 0
    world: int = 1
    host_group: "dist.ProcessGroup | None" = None  # for what is decided on the host, over Gloo
    timeout_s: float = 1800.0

    @property
    def is_first(self) -> bool:
        """Whether this process writes and prints."""
        return self.rank == 0

    def meet(self) -> None:
        """Wait until every process has come so far; one that does not is named."""
        if self.world > 1:
            with self._naming_the_lost():
                dist.monitored_barrier(self.host_group, timedelta(seconds=self.timeout_s))

    def sum(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all processes."""
        if self.world > 1:
            with self._naming_the_lost():
                dist.all_reduce(tensor)

    def agree(self, *wishes: bool, seconds: float) -> tuple[list[bool], float]:
        """Learn of each wish whether some process has it, and the time on the first one's clock."""
        if self.world == 1:
            return list(wishes), seconds
        clock = seconds if self.is_first else 0.0
        votes = torch.tensor([*map(float, wishes), clock], dtype=torch.float64)
        self.meet()
        with self._naming_the_lost():
            dist.all_reduce(votes, group=self.host_group)
        *counted, time = votes.tolist()
        return [vote > 0 for vote in counted], time

    def from_first(self, value: Any) -> Any:
        """Give every process the first one's value, which JSON can write."""
        if self.world == 1:
            return value
        text = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        size = torch.tensor([text.numel()])
        with self._naming_the_lost():
            dist.broadcast(size, 0, self.host_group)
            if not self.is_first:
                text = torch.empty(int(size), dtype=torch.uint8)
            dist.broadcast(text, 0, self.host_group)
        return json.loads(bytes(text.tolist()))

    def copy_from_first(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite tensors with the first process's."""
        if self.world > 1:
            with self._naming_the_lost():
                for tensor in tensors:
                    dist.broadcast(tensor, 0)

    def _naming_the_lost(self) -> AbstractContextManager[None]:
        return naming_the_lost(self.rank, self.world)


@dataclass(frozen=True)
class Place:
    """Which of several processes this is and where they meet, as torchrun says."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    address: str = "localhost"
    port: int = 0


@contextmanager
def joined(place: Place, *, device: torch.device, timeout_s: float) -> Iterator[Processes]:
    """Join the processes that torchrun started, over NCCL on GPUs and Gloo elsewhere."""
    if place.world == 1:
        yield Processes()
        return
    patience = timedelta(seconds=timeout_s)
    with naming_the_lost(place.rank, place.world):
        dist.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            store=_fresh_store(place, timeout_s),
            rank=place.rank,
            world_size=place.world,
            timeout=patience,
        )
        host_group = dist.new_group(backend="gloo", timeout=patience)
    try:
        yield Processes(place.rank, place.world, host_group, timeout_s)
    finally:
        dist.destroy_process_group()


def _fresh_store(place: Place, timeout_s: float) -> Any:
    """Meet at a store of this attempt's own.

    The one that torchrun offers is the same after a restart, with the addresses of processes that
    have died. So the first process opens a new one and leaves its port there; the others try what
    they find until somebody answers.
    """
    store_at: Any = partial(dist.TCPStore, place.address)  # type: ignore[attr-defined]
    patience = timedelta(seconds=timeout_s)
    known = store_at(place.port, is_master=False, timeout=patience)
    if place.rank == 0:
        store = store_at(0, is_master=True, wait_for_workers=False, timeout=patience)
        known.set(_PORT, str(store.port))
        return store
    end = time.monotonic() + timeout_s
    while True:
        try:
            store = store_at(int(known.get(_PORT)), is_master=False, timeout=_ONE_TRY)
        except dist.DistNetworkError:
            if time.monotonic() > end:
                raise
        else:
            store.set_timeout(patience)
            return store


_ONE_TRY = timedelta(seconds=1)
_PORT = "transduce/port"


@contextmanager
def naming_the_lost(rank: int, world: int) -> Iterator[None]:
    """Turn what torch raises when another process is gone into an error that says so."""
    try:
        yield
    except torch.OutOfMemoryError:  # a RuntimeError too, but of this process
        raise
    except RuntimeError as lost:
        reason = str(lost).strip().splitlines()[0]
        raise LostProcessError(
            f"process {rank} of {world} lost another one, which was killed or hangs "
            f"({reason}); run the same command again to go on from the last checkpoint"
        ) from lost
