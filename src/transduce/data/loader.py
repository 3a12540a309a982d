"""Batches of any epoch from any position on, prepared in the background."""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from queue import Full, Queue
from threading import Event, Thread
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from transduce.data.batch import Batch
from transduce.data.batching import EpochPlan, Indices, RowCapacity, mix_corpora, pack_rows
from transduce.data.store import Store

PREFETCHED_STEPS = 8
MAX_GROWTH = 4
"""With noise, sentences may be this many times as long as the longest without."""


class EpochChanges(Protocol):
    """Changes pairs of a store, others in each epoch: noise, hints of terms."""

    def store(self, clean: Store, *, seed: int, epoch: int, max_lengths: tuple[int, int]) -> Store:
        """Return the store of an epoch; no side gets longer than `max_lengths`, without EOS."""

    def sampled_lengths(
        self, clean: Store, pairs: NDArray[np.int64], *, seed: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the lengths of both sides of some of these pairs, changed, without EOS."""

    def close(self) -> None:
        """End what it has started."""


@dataclass(frozen=True)
class StepBatches:
    """The batches that one process takes in a step, and the token counts of all processes."""

    batches: list[Batch]
    src_tokens: int  # of all processes
    tgt_tokens: int  # of all processes
    first: int  # number of the step's first batch in the epoch
    done: int  # batches of the epoch that are done after the step
    epoch_batches: int  # batches in the epoch


@dataclass(frozen=True)
class Loader:
    """The batches of process `rank` among `world` processes."""

    store: Store
    max_tokens: int = 25_000  # of a batch, on each side (§5.1)
    per_step: int = 1  # batches that all processes together take in a step
    seed: int = 1
    rank: int = 0
    world: int = 1
    pin: bool = False  # put batches into pinned memory
    weights: Sequence[float] = ()  # of the store's corpora; 1 each if not given
    max_length: int | None = None  # tokens per side, EOS included; longer pairs are left out
    packed: bool = False  # packed sequences instead of padded ones
    max_pairs: int | None = None  # of more, so many are taken, spread evenly over the store
    noise: EpochChanges | None = None  # changes pairs, others in each epoch

    def plan(self, epoch: int) -> EpochPlan:
        """Plan an epoch; EOS counts as a token."""
        return self.epoch(epoch).plan

    def epoch(self, epoch: int) -> "Epoch":
        """Put noise into the pairs of an epoch, if asked for, and plan it."""
        ends, seed = self.store.manifest["source_ends"], self.seed
        weights = self.weights or [1.0] * len(ends)
        taken = self._without_long(mix_corpora(ends, weights, seed=seed, epoch=epoch))
        taken = self._spread(taken)
        store = self.store
        if self.noise is not None:
            added = _added(store)  # EOS and tags
            limits = self._max_lengths.src - added[0], self._max_lengths.tgt - added[1]
            store = self.noise.store(store, seed=seed, epoch=epoch, max_lengths=limits)
        lengths = _lengths(store, taken)
        if self.packed:
            plan = EpochPlan.packed(*lengths, self._batch_capacity, seed=seed, epoch=epoch)
        else:
            plan = EpochPlan.padded(*lengths, max_tokens=self.max_tokens, seed=seed, epoch=epoch)
        return Epoch(store, plan.renumbered(taken))

    def steps(self, epoch: int, *, done: int = 0) -> Generator[StepBatches]:
        """Stream an epoch's steps after the first `done` batches, prepared in the background.

        In the second half of an epoch the next one is planned in the background too, so that no
        step waits for the plan.
        """
        return _prefetched(self._steps(self._planner.take(epoch), epoch, done))

    def batches(self, epoch: int) -> Generator[Batch]:
        """Stream this process's batches of an epoch."""
        for step in self.steps(epoch):
            yield from step.batches

    def _steps(self, now: "Epoch", epoch: int, done: int) -> Iterator[StepBatches]:
        begin_next = 0 if self.noise else len(now.plan) // 2  # noise takes longer than a plan
        for first in range(done, len(now.plan), self.per_step):
            if first >= begin_next:
                self._planner.start(epoch + 1)
            yield self._step(now, first)

    @cached_property
    def _planner(self) -> "_Planner":
        return _Planner(self.epoch)

    def _step(self, now: "Epoch", first: int) -> StepBatches:
        plan, store = now.plan, now.store
        count = min(self.per_step, len(plan) - first)
        if self.packed:
            batches = [self._packed_row(store, row) for row in self._rows(now, first, count)]
        else:
            mine = plan.step_sentences(first, count=count, rank=self.rank, world=self.world)
            batches = [Batch.padded(store, sentences) for sentences in mine]
        of_all = plan.sentences[plan.starts[first] : plan.starts[first + count]]
        src_tokens, tgt_tokens = (int(side.sum()) for side in _lengths(store, of_all))
        return StepBatches(
            [batch.pinned() for batch in batches] if self.pin else batches,
            src_tokens=src_tokens,
            tgt_tokens=tgt_tokens,
            first=first,
            done=first + count,
            epoch_batches=len(plan),
        )

    def _rows(self, now: "Epoch", first: int, count: int) -> list[Indices]:
        """Return the sentences of each row that this process takes from the next batches."""
        rows = [now.plan.batch(index) for index in range(first, first + count)]
        if self._row_capacity != self._batch_capacity:
            together = np.concatenate(rows)
            lengths = _lengths(now.store, together)
            rows = [together[row] for row in pack_rows(*lengths, self._row_capacity)]
        return rows[self.rank :: self.world]

    def _packed_row(self, store: Store, sentences: Indices) -> Batch:
        """Pack a row in one of two sizes: each size is compiled and recorded separately.

        The larger size holds the longest pair of all. A pair that does not fit into the smaller one
        is alone in such a row, followed by padding.
        """
        fits = self._row_capacity.holds(*_lengths(store, sentences))
        capacity = self._row_capacity if fits else self._longest_pair
        return Batch.packed(store, sentences, capacity)

    @cached_property
    def _batch_capacity(self) -> RowCapacity:
        """The tokens of a packed batch: the same in all epochs."""
        if self.noise is None:
            return RowCapacity.within(self.max_tokens, *_lengths(self.store, self._usable))
        src, tgt = self.noise.sampled_lengths(self.store, self._usable, seed=self.seed)
        added = _added(self.store)
        return RowCapacity.within(self.max_tokens, src + added[0], tgt + added[1])

    @cached_property
    def _row_capacity(self) -> RowCapacity:
        """The tokens of one row, such that every process takes the same number of rows."""
        rows = self.world * math.ceil(self.per_step / self.world)
        return self._batch_capacity.divided_by(rows / self.per_step)

    @cached_property
    def _longest_pair(self) -> RowCapacity:
        if self.noise is None:
            return RowCapacity.of_longest(*_lengths(self.store, self._usable))
        return RowCapacity.of_longest(*(np.array([most]) for most in self._max_lengths))

    @cached_property
    def _max_lengths(self) -> RowCapacity:
        """The longest sentences with noise, EOS included; the same for all layouts."""
        longest = (int(side.max(initial=1)) for side in _lengths(self.store, self._usable))
        limit = self.max_length or max(self._batch_capacity)
        both = zip(longest, self._batch_capacity, strict=True)
        return RowCapacity(*(max(most, min(MAX_GROWTH * most, fits, limit)) for most, fits in both))

    @property
    def _usable(self) -> Indices:
        return self._without_long(np.arange(len(self.store)))

    def _without_long(self, sentences: Indices) -> Indices:
        """Leave out pairs longer than max_length."""
        if self.max_length is None:
            return sentences
        return sentences[np.maximum(*_lengths(self.store, sentences)) <= self.max_length]

    def _spread(self, sentences: Indices) -> Indices:
        """Leave out some pairs if there are more than max_pairs, the same whatever the seed."""
        if self.max_pairs is None or len(sentences) <= self.max_pairs:
            return sentences
        return np.sort(sentences)[np.arange(self.max_pairs) * len(sentences) // self.max_pairs]


@dataclass(frozen=True)
class Epoch:
    """The pairs of an epoch, and its plan."""

    store: Store
    plan: EpochPlan


def _lengths(store: Store, sentences: Indices) -> tuple[Indices, Indices]:
    """Return the lengths of both sides, EOS and tags included."""
    both = zip((store.src, store.tgt), _added(store), strict=True)
    src, tgt = (side.lengths_of(sentences) + added for side, added in both)
    return src, tgt


def _added(store: Store) -> tuple[int, int]:
    """Return how many tokens are added to each sentence of each side: EOS, and perhaps a tag."""
    tagged = None if store.tags is None else store.tags.side
    return 1 + (tagged == "src"), 1 + (tagged == "tgt")


class _Planner:
    """Prepares one epoch ahead in a thread, on request."""

    def __init__(self, make: Callable[[int], Epoch]) -> None:
        self._make = make
        self._started: dict[int, Future[Epoch]] = {}  # at most one epoch

    def start(self, epoch: int) -> None:
        """Start preparing an epoch, unless that has been started."""
        if epoch not in self._started:
            future: Future[Epoch] = Future()
            self._started = {epoch: future}
            Thread(target=self._run, args=(future, epoch), daemon=True, name="plan").start()

    def take(self, epoch: int) -> Epoch:
        """Return an epoch, waiting for it if it has been started."""
        future = self._started.pop(epoch, None)
        return self._make(epoch) if future is None else future.result()

    def _run(self, future: "Future[Epoch]", epoch: int) -> None:
        try:
            future.set_result(self._make(epoch))
        except BaseException as fault:  # noqa: BLE001 - raised again where the plan is awaited
            future.set_exception(fault)


_Queue = Queue[StepBatches | BaseException | None]
"""Steps in order; then the exception that ended them, or None."""


def _prefetched(steps: Iterator[StepBatches]) -> Generator[StepBatches]:
    """Draw from an iterator in a thread, a few items ahead; its exceptions are raised here."""
    queue: _Queue = Queue(PREFETCHED_STEPS)
    stopped = Event()
    thread = Thread(target=_fill, args=(queue, steps, stopped), daemon=True, name="batches")
    thread.start()
    try:
        while (item := queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        # If the process ended while the thread is inside torch, it would abort. The time limit is
        # for a disk that never answers.
        thread.join(timeout=10)


def _fill(queue: _Queue, steps: Iterator[StepBatches], stopped: Event) -> None:
    try:
        for step in steps:
            if not _put(queue, step, stopped):
                return
    except BaseException as fault:  # noqa: BLE001 - raised again where the step is awaited
        _put(queue, fault, stopped)
    else:
        _put(queue, None, stopped)


def _put(queue: _Queue, item: StepBatches | BaseException | None, stopped: Event) -> bool:
    """Wait until the queue has space or its reader has stopped; return whether it was put."""
    while not stopped.is_set():
        try:
            queue.put(item, timeout=0.1)
        except Full:
            continue
        return True
    return False
