"""Batches of any epoch from any position on, made ready in the background."""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from queue import Full, Queue
from threading import Event, Thread

import numpy as np

from transduce.data.batch import Batch
from transduce.data.batching import Indices, Plan, Room, deal, mixed
from transduce.data.store import Store

AHEAD = 8


@dataclass(frozen=True)
class Share:
    """What one process takes in a step, and how much all of them take together."""

    batches: list[Batch]
    src_tokens: int  # of all processes
    tgt_tokens: int
    first: int  # the step's first batch in its epoch
    done: int  # batches of the epoch that are done after the step
    of: int  # batches in the epoch


@dataclass(frozen=True)
class Loader:
    """The batches of one process among `world`."""

    store: Store
    max_tokens: int = 25_000  # of a batch, on either side (§5.1)
    per_step: int = 1  # batches that all processes take together in a step
    seed: int = 1
    rank: int = 0
    world: int = 1
    pin: bool = False
    weights: Sequence[float] = ()  # of the store's corpora; 1 each if not given
    max_length: int | None = None  # tokens of a side, its end included; longer pairs are left out
    in_rows: bool = False  # sentences lie end to end instead of padded

    def plan(self, epoch: int) -> Plan:
        """Plan an epoch; ends of sentences count as tokens."""
        ends = self.store.manifest["source_ends"]
        weights = self.weights or [1.0] * len(ends)
        taken = self._short(mixed(ends, weights, seed=self.seed, epoch=epoch))
        lengths = self._lengths(taken)
        if self.in_rows:
            plan = Plan.of_rows(*lengths, self._batch_room, seed=self.seed, epoch=epoch)
        else:
            plan = Plan.of_epoch(*lengths, max_tokens=self.max_tokens, seed=self.seed, epoch=epoch)
        return plan.of(taken)

    def steps(self, epoch: int, *, done: int = 0) -> Generator[Share]:
        """Stream an epoch's steps after the first `done` batches, made ready in the background.

        From its middle on the next epoch is planned there too, so that no step waits for that.
        """
        return _ahead(self._shares(self._planner.plan(epoch), epoch, done))

    def batches(self, epoch: int) -> Generator[Batch]:
        """Stream this process's batches of an epoch."""
        for share in self.steps(epoch):
            yield from share.batches

    def _shares(self, plan: Plan, epoch: int, done: int) -> Iterator[Share]:
        for first in range(done, len(plan), self.per_step):
            if first >= len(plan) // 2:
                self._planner.begin(epoch + 1)
            yield self._share(plan, first)

    @cached_property
    def _planner(self) -> "_Planner":
        return _Planner(self.plan)

    def _share(self, plan: Plan, first: int) -> Share:
        count = min(self.per_step, len(plan) - first)
        if self.in_rows:
            batches = [self._row(row) for row in self._rows(plan, first, count)]
        else:
            mine = plan.share(first, count=count, rank=self.rank, world=self.world)
            batches = [Batch.of(self.store, sentences) for sentences in mine]
        everyones = plan.sentences[plan.starts[first] : plan.starts[first + count]]
        src_tokens, tgt_tokens = (int(side.sum()) for side in self._lengths(everyones))
        return Share(
            [batch.pinned() for batch in batches] if self.pin else batches,
            src_tokens=src_tokens,
            tgt_tokens=tgt_tokens,
            first=first,
            done=first + count,
            of=len(plan),
        )

    def _rows(self, plan: Plan, first: int, count: int) -> list[Indices]:
        """Name the sentences of each row that this process takes of so many batches."""
        rows = [plan.batch(index) for index in range(first, first + count)]
        if self._row_room != self._batch_room:
            together = np.concatenate(rows)
            rows = [together[row] for row in deal(*self._lengths(together), self._row_room)]
        return rows[self.rank :: self.world]

    def _row(self, sentences: Indices) -> Batch:
        """Lay out a row in one of two sizes: each is compiled and recorded for anew.

        The second has room for the longest pair of all; a pair that the first does not hold lies
        there alone, amid padding.
        """
        fits = self._row_room.holds(*self._lengths(sentences))
        return Batch.in_row(self.store, sentences, self._row_room if fits else self._longest)

    @cached_property
    def _batch_room(self) -> Room:
        """How many tokens a batch has in rows: the same in all epochs."""
        return Room.within(self.max_tokens, *self._lengths(self._short_ones))

    @cached_property
    def _row_room(self) -> Room:
        """How many of them lie in one row: so many that every process takes equally many rows."""
        rows = self.world * math.ceil(self.per_step / self.world)
        return self._batch_room.of_piece(rows / self.per_step)

    @cached_property
    def _longest(self) -> Room:
        return Room.of_longest(*self._lengths(self._short_ones))

    @property
    def _short_ones(self) -> Indices:
        return self._short(np.arange(len(self.store)))

    def _short(self, sentences: Indices) -> Indices:
        """Leave out what is too long."""
        if self.max_length is None:
            return sentences
        return sentences[np.maximum(*self._lengths(sentences)) <= self.max_length]

    def _lengths(self, sentences: Indices) -> tuple[Indices, Indices]:
        src, tgt = (side.lengths_of(sentences) + 1 for side in (self.store.src, self.store.tgt))
        return src, tgt


class _Planner:
    """Plans one epoch ahead in a thread, once that is asked for."""

    def __init__(self, make: Callable[[int], Plan]) -> None:
        self._make = make
        self._begun: dict[int, Future[Plan]] = {}  # of one epoch, or of none

    def begin(self, epoch: int) -> None:
        """Begin with an epoch's plan, unless that has begun."""
        if epoch not in self._begun:
            promise: Future[Plan] = Future()
            self._begun = {epoch: promise}
            Thread(target=self._keep, args=(promise, epoch), daemon=True, name="plan").start()

    def plan(self, epoch: int) -> Plan:
        """Plan an epoch, or take the plan that was begun."""
        promise = self._begun.pop(epoch, None)
        return self._make(epoch) if promise is None else promise.result()

    def _keep(self, promise: "Future[Plan]", epoch: int) -> None:
        try:
            promise.set_result(self._make(epoch))
        except BaseException as fault:  # noqa: BLE001 - raised again where the plan is awaited
            promise.set_exception(fault)


def _ahead(shares: Iterator[Share]) -> Generator[Share]:
    """Draw from an iterator in a thread, a few items ahead; what it raises is raised here."""
    queue: Queue[Share | BaseException | None] = Queue(AHEAD)
    stopped = Event()
    thread = Thread(target=_fill, args=(queue, shares, stopped), daemon=True, name="batches")
    thread.start()
    try:
        while (item := queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        # A process must not end while the thread is inside of torch: that would abort it. But
        # neither may a disk that never answers keep it from ending.
        thread.join(timeout=10)


def _fill(
    queue: "Queue[Share | BaseException | None]", shares: Iterator[Share], stopped: Event
) -> None:
    try:
        for share in shares:
            if not _put(queue, share, stopped):
                return
    except BaseException as fault:  # noqa: BLE001 - raised again where the share is awaited
        _put(queue, fault, stopped)
    else:
        _put(queue, None, stopped)


def _put(
    queue: "Queue[Share | BaseException | None]", item: Share | BaseException | None, stopped: Event
) -> bool:
    """Wait for a place, but not for a reader who has gone; say whether there was one."""
    while not stopped.is_set():
        try:
            queue.put(item, timeout=0.1)
        except Full:
            continue
        return True
    return False
