"""Batches of any epoch from any position on, made ready in the background."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from queue import Full, Queue
from threading import Event, Thread

from transduce.data.batch import Batch
from transduce.data.batching import Plan, mixed
from transduce.data.store import Store

AHEAD = 8


@dataclass(frozen=True)
class Loader:
    """The batches of one process among `world`."""

    store: Store
    max_tokens: int = 25_000  # on either side (§5.1)
    seed: int = 1
    rank: int = 0
    world: int = 1
    pin: bool = False
    weights: Sequence[float] = ()  # of the store's corpora; 1 each if not given

    def plan(self, epoch: int) -> Plan:
        """Plan an epoch; ends of sentences count as tokens."""
        ends = self.store.manifest["source_ends"]
        weights = self.weights or [1.0] * len(ends)
        taken = mixed(ends, weights, seed=self.seed, epoch=epoch)
        lengths = (side.lengths[taken] + 1 for side in (self.store.src, self.store.tgt))
        plan = Plan.of_epoch(*lengths, max_tokens=self.max_tokens, seed=self.seed, epoch=epoch)
        return plan.of(taken)

    def batches(self, epoch: int, *, done: int = 0) -> Generator[Batch]:
        """Stream an epoch's batches after the first `done`, which all processes have taken."""
        plan = self.plan(epoch)
        made = (self._batch(plan, first) for first in range(done, len(plan), self.world))
        return _ahead(made)

    def _batch(self, plan: Plan, done: int) -> Batch:
        batch = Batch.of(self.store, plan.share(done, rank=self.rank, world=self.world))
        return batch.pinned() if self.pin else batch


def _ahead(batches: Iterator[Batch]) -> Generator[Batch]:
    """Draw from an iterator in a thread, a few items ahead; what it raises is raised here."""
    queue: Queue[Batch | Exception | None] = Queue(AHEAD)
    stopped = Event()
    Thread(target=_fill, args=(queue, batches, stopped), daemon=True, name="batches").start()
    try:
        while (item := queue.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item
    finally:
        stopped.set()


def _fill(
    queue: "Queue[Batch | Exception | None]", batches: Iterator[Batch], stopped: Event
) -> None:
    try:
        for batch in batches:
            if not _put(queue, batch, stopped):
                return
    except Exception as fault:  # noqa: BLE001 - raised again where the batch is awaited
        _put(queue, fault, stopped)
    else:
        _put(queue, None, stopped)


def _put(
    queue: "Queue[Batch | Exception | None]", item: Batch | Exception | None, stopped: Event
) -> bool:
    """Wait for a place, but not for a reader who has gone; say whether there was one."""
    while not stopped.is_set():
        try:
            queue.put(item, timeout=0.1)
        except Full:
            continue
        return True
    return False
