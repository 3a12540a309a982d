"""Requests of all clients, gathered into batches: one thread translates, one batch after the other.

The event loop puts jobs into a queue and gets futures; it alone touches those. A job whose future
is done, because its client is gone or its deadline has passed, leaves the queue; a batch that
nobody waits for any longer ends at its next step.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from threading import Condition, Thread

from transduce.decoding.options import Options, Translation
from transduce.decoding.stop import Stopped, stopping
from transduce.decoding.translator import Translator
from transduce.serving.refusal import Refused, too_busy

MAX_WITH_ATTENTION = 8
"""Sentences of a batch whose attention is kept: the weights of a long one take 40 MiB."""
EARLY_S = 1.0
"""Who has waited longer than this is late because of others."""
GROWTH = 4
"""A wait goes on while jobs keep coming, for up to so many times its length."""


@dataclass(frozen=True)
class Kind:
    """What the jobs of one batch have in common."""

    pair: str
    translator: Translator
    options: Options


@dataclass(eq=False)
class Job:
    """One line to translate."""

    kind: Kind
    line: str
    weight: int
    future: asyncio.Future[Translation]
    request: int  # which it belongs to
    put: float = field(default_factory=time.monotonic)
    had_its_time: bool = False  # it began early, and its batch had nothing but its request


@dataclass(frozen=True)
class Done:
    """A batch, as it is told to whoever measures."""

    pair: str
    sentences: int
    seconds: float
    was_stopped: bool


class Batcher:
    """Translates what it is given, as much at a time as there is, but for `max_batch` sentences."""

    def __init__(
        self,
        *,
        max_queue: int,
        max_batch: int = 64,
        wait_s: float = 0.003,
        tell: Callable[[Done], None],
    ) -> None:
        self._max_queue = max_queue
        self._max_batch = max_batch
        self._wait_s = wait_s
        self._tell = tell
        self._numbers = count()
        self._changed = Condition()  # guards the next three
        self._waiting: dict[int, Job] = {}  # by number, the oldest first
        self._arrived = 0
        self._is_closed = False
        self._unanswered = 0  # sentences, waiting or being translated; of the event loop alone
        self._sentences_per_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = Thread(target=self._work, name="batches", daemon=True)

    @property
    def unanswered(self) -> int:
        """Count the sentences that somebody waits for."""
        return self._unanswered

    def has_room(self, sentences: int) -> bool:
        """Say whether so many more would be taken."""
        return self._unanswered + sentences <= self._max_queue

    def start(self) -> None:
        """Begin to work for the event loop that is running."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def close(self) -> None:
        """Finish what was taken, and end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        await asyncio.to_thread(self._thread.join)

    async def translate(
        self, kind: Kind, lines: Sequence[str], weights: Sequence[int], *, deadline_s: float
    ) -> list[Translation]:
        """Translate lines that are not blank; cancelled or late, it gives them up.

        Where the queue would become too long, it refuses all of them at once.
        """
        jobs = self._put(kind, lines, weights)
        try:
            async with asyncio.timeout(deadline_s):
                return await asyncio.gather(*(job.future for job in jobs))
        except TimeoutError:
            raise self._late(jobs, deadline_s) from None
        finally:
            for job in jobs:
                job.future.cancel()

    def _put(self, kind: Kind, lines: Sequence[str], weights: Sequence[int]) -> list[Job]:
        more = sum(weights)
        if not self.has_room(more):
            raise too_busy(self._retry_after_s())
        assert self._loop is not None, "a batcher is started before it is used"
        request = next(self._numbers)
        jobs = [
            Job(kind, line, sentences, self._loop.create_future(), request)
            for line, sentences in zip(lines, weights, strict=True)
        ]
        self._unanswered += more
        with self._changed:
            for job in jobs:
                number = next(self._numbers)
                self._waiting[number] = job
                job.future.add_done_callback(partial(self._leave, number, job.weight))
            self._arrived += 1
            self._changed.notify_all()
        return jobs

    def _late(self, jobs: list[Job], deadline_s: float) -> Refused:
        """Tell whether there was too much else to do, or it takes too long by itself."""
        if not all(job.had_its_time for job in jobs):
            return too_busy(self._retry_after_s())
        return Refused(413, f"not done within {deadline_s:g} s, and given up: send less at once")

    def _leave(self, number: int, sentences: int, _future: asyncio.Future[Translation]) -> None:
        self._unanswered -= sentences
        with self._changed:
            self._waiting.pop(number, None)

    def _retry_after_s(self) -> int:
        """Guess how long it takes until half of the queue is done."""
        if not self._sentences_per_s:
            return 1
        return max(1, min(60, math.ceil(self._unanswered / 2 / self._sentences_per_s)))

    # What follows is done by the thread that translates.

    def _work(self) -> None:
        expected = 1
        while jobs := self._next_batch(expected):
            self._run(jobs)
            # Whoever is answered may well come again: with those that wait, so many are expected.
            with self._changed:
                expected = len(jobs) + len(self._waiting)

    def _next_batch(self, expected: int) -> list[Job]:
        """Wait for jobs, a moment longer while fewer than expected are there; [] at the end."""
        with self._changed:
            while True:
                while not self._waiting:
                    if self._is_closed:
                        return []
                    self._changed.wait()
                self._gather(min(expected, self._max_batch))
                if self._waiting:  # they may have left again
                    return self._take()

    def _gather(self, expected: int) -> None:
        end = time.monotonic() + GROWTH * self._wait_s
        while len(self._waiting) < expected and not self._is_closed:
            arrived = self._arrived
            self._changed.wait(min(self._wait_s, max(0.0, end - time.monotonic())))
            if arrived == self._arrived:  # nobody else comes, or it has taken long enough
                return

    def _take(self) -> list[Job]:
        """Take the oldest job and others of its kind."""
        first = next(iter(self._waiting.values()))
        most = MAX_WITH_ATTENTION if first.kind.options.attention else self._max_batch
        taken: dict[int, Job] = {}
        sentences = 0
        for number, job in self._waiting.items():
            if job.kind != first.kind or (taken and sentences + job.weight > most):
                continue
            taken[number] = job
            sentences += job.weight
            if sentences >= most:
                break
        is_alone = len({job.request for job in taken.values()}) == 1
        for number in taken:
            job = self._waiting.pop(number)
            job.had_its_time = is_alone and time.monotonic() - job.put < EARLY_S
        return list(taken.values())

    def _run(self, jobs: list[Job]) -> None:
        began = time.perf_counter()
        was_stopped = False
        results: Sequence[Translation | Exception] = []
        try:
            with stopping(lambda: all(job.future.done() for job in jobs)):
                results = _translated(jobs)
        except Stopped:
            was_stopped = True
        seconds = time.perf_counter() - began
        done = Done(jobs[0].kind.pair, sum(job.weight for job in jobs), seconds, was_stopped)
        assert self._loop is not None, "the thread is started by start"
        self._loop.call_soon_threadsafe(self._deliver, jobs, results, done)

    def _deliver(
        self, jobs: list[Job], results: Sequence[Translation | Exception], done: Done
    ) -> None:
        for job, result in zip(jobs, results, strict=False):  # none if it was stopped
            if job.future.done():
                continue
            if isinstance(result, Exception):
                job.future.set_exception(result)
            else:
                job.future.set_result(result)
        if not done.was_stopped:
            rate = done.sentences / max(done.seconds, 1e-6)
            before = self._sentences_per_s or rate
            self._sentences_per_s = before + 0.2 * (rate - before)
        self._tell(done)


def _translated(jobs: list[Job]) -> Sequence[Translation | Exception]:
    """Translate lines together; if that fails, one by one, so that only the culprit fails."""
    kind = jobs[0].kind
    try:
        return kind.translator.translate([job.line for job in jobs], kind.options)
    except Stopped:
        raise
    except Exception as fault:  # noqa: BLE001 - it goes to whoever asked
        if len(jobs) == 1:
            return [fault]
    return [result for job in jobs for result in _translated([job])]
