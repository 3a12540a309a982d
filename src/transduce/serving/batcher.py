"""Requests of all clients, gathered into batches; one thread translates one batch at a time.

The event loop queues jobs and waits for their futures; only the event loop touches the futures. A
job whose future is done, because its client has left or its deadline has passed, leaves the queue.
A batch without a waiting client is cancelled at its next search step. A fault of any kind fails the
lines that cause it. If the thread ends all the same, its lines fail, and another one is started.
"""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from threading import Condition, Thread

from transduce.hardware.allocator import release_freed_memory
from transduce.search.cancel import Cancelled, cancelled_when
from transduce.serving.refusal import Refused, too_busy
from transduce.text.markup.marked import Line
from transduce.translation.options import Options, Translation
from transduce.translation.translator import Translator

MAX_WITH_ATTENTION = 8
"""Sentences of a batch whose attention is kept: the weights of a long one take 40 MiB."""
PROMPT_S = 1.0
"""A job that was queued for longer than this is late because of other requests."""
GROWTH = 4
"""While jobs keep arriving, a batch waits for more, up to this many times `wait_s`."""
MAX_RESTARTS, RESTARTS_S = 3, 60.0
"""A thread that ended this often within this time is reported, because it will end again."""
RELEASE_S = 5.0
"""How often freed memory is returned to the system."""
STUCK_S = 60.0
"""A batch that runs for this much longer than the deadline of its requests is reported."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BatchKey:
    """What all jobs of one batch have in common."""

    pair: str
    translator: Translator
    options: Options


@dataclass(eq=False)
class Job:
    """One line to translate."""

    key: BatchKey
    line: Line
    sentences: int
    future: asyncio.Future[Translation]
    request: int  # the number of the request that it belongs to
    deadline_s: float
    queued_at: float = field(default_factory=time.monotonic)
    ran_undisturbed: bool = False  # started promptly, in a batch with its own request alone


@dataclass(frozen=True)
class FinishedBatch:
    """What is reported about a batch when it has ended."""

    pair: str
    sentences: int
    seconds: float
    was_cancelled: bool


class Batcher:
    """Translates queued lines in batches of up to `max_batch` sentences."""

    def __init__(
        self,
        *,
        max_queue: int,
        max_batch: int = 64,
        wait_s: float = 0.003,
        on_batch: Callable[[FinishedBatch], None],
    ) -> None:
        self._max_queue = max_queue
        self._max_batch = max_batch
        self._wait_s = wait_s
        self._on_batch = on_batch
        self._numbers = count()
        self._changed = Condition()  # guards the next three
        self._waiting: dict[int, Job] = {}  # by number, the oldest first
        self._arrived = 0
        self._is_closed = False
        self._unanswered = 0  # sentences, waiting or being translated; for the event loop alone
        self._sentences_per_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._taken: list[Job] = []  # by the thread
        self._taken_at = 0.0
        self._restarted_at: deque[float] = deque(maxlen=MAX_RESTARTS)
        self.restarts = 0  # how often the thread had to be replaced

    @property
    def unanswered(self) -> int:
        """The number of sentences that are waiting or being translated."""
        return self._unanswered

    @property
    def fault(self) -> str | None:
        """What keeps it from translating, if anything."""
        if self._thread is None or not self._thread.is_alive():
            return "the model thread has ended"
        now = time.monotonic()
        if len(self._restarted_at) == MAX_RESTARTS and now - self._restarted_at[0] < RESTARTS_S:
            return "the model thread keeps ending: see the log of the server"
        taken = self._taken
        if taken and now - self._taken_at > STUCK_S + max(job.deadline_s for job in taken):
            return "the model thread is stuck in a batch"
        return None

    def has_capacity(self, sentences: int) -> bool:
        """Return whether this many more sentences fit into the queue."""
        return self._unanswered + sentences <= self._max_queue

    def start(self) -> None:
        """Start the thread; results go to the event loop that is running."""
        self._loop = asyncio.get_running_loop()
        self._start_thread()

    def _start_thread(self) -> None:
        self._thread = Thread(target=self._work, name="batches", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Finish all queued jobs, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        ended = None
        while ended is not self._thread:  # it may have been replaced
            ended = self._thread
            assert ended is not None, "a batcher is started before it is closed"
            await asyncio.to_thread(ended.join)
            await asyncio.sleep(0)

    async def translate(
        self, key: BatchKey, lines: Sequence[Line], sentences: Sequence[int], *, deadline_s: float
    ) -> list[Translation]:
        """Translate lines that are not blank, of which each has that many sentences.

        If the queue would become too long, all lines are refused at once. When this is cancelled,
        or at the deadline, they leave the queue.
        """
        if not lines:
            return []
        jobs = self._queue(key, lines, sentences, deadline_s)
        try:
            async with asyncio.timeout(deadline_s):
                return await asyncio.gather(*(job.future for job in jobs))
        except TimeoutError:
            raise self._late(jobs, deadline_s) from None
        finally:
            for job in jobs:
                job.future.cancel()

    def _queue(
        self, key: BatchKey, lines: Sequence[Line], sentences: Sequence[int], deadline_s: float
    ) -> list[Job]:
        total = sum(sentences)
        if not self.has_capacity(total):
            raise too_busy(self._retry_after_s())
        assert self._loop is not None, "a batcher is started before it is used"
        request = next(self._numbers)
        jobs = [
            Job(key, line, its_sentences, self._loop.create_future(), request, deadline_s)
            for line, its_sentences in zip(lines, sentences, strict=True)
        ]
        self._unanswered += total
        with self._changed:
            for job in jobs:
                number = next(self._numbers)
                self._waiting[number] = job
                job.future.add_done_callback(partial(self._leave, number, job.sentences))
            self._arrived += 1
            self._changed.notify_all()
        return jobs

    def _late(self, jobs: list[Job], deadline_s: float) -> Refused:
        """Return why a deadline has passed: the server was busy, or the request is too large."""
        if not all(job.ran_undisturbed for job in jobs):
            return too_busy(self._retry_after_s())
        return Refused(413, f"not finished within {deadline_s:g} s: send less at once")

    def _leave(self, number: int, sentences: int, _future: asyncio.Future[Translation]) -> None:
        self._unanswered -= sentences
        with self._changed:
            self._waiting.pop(number, None)

    def _retry_after_s(self) -> int:
        """Estimate the time until half of the queue is done."""
        if not self._sentences_per_s:
            return 1
        return max(1, min(60, math.ceil(self._unanswered / 2 / self._sentences_per_s)))

    def _replace_thread(self) -> None:
        """Answer what an ended thread had taken, and start another; in the event loop."""
        ended = Refused(500, "the model thread has ended; another one was started: try again")
        for job in self._taken:
            if not job.future.done():
                job.future.set_exception(ended)
        self._taken = []
        self.restarts += 1
        self._restarted_at.append(time.monotonic())
        self._start_thread()

    # All methods below except `_deliver` run in the thread that translates.

    def _work(self) -> None:
        try:
            self._translate_until_closed()
        except BaseException:  # noqa: BLE001 - whatever it is, the thread must not end unnoticed
            _log.exception("the model thread has ended")
            assert self._loop is not None, "the thread is started by start"
            self._loop.call_soon_threadsafe(self._replace_thread)

    def _translate_until_closed(self) -> None:
        expected, released = 1, time.monotonic()
        while jobs := self._next_batch(expected):
            self._run(jobs)
            if time.monotonic() - released > RELEASE_S:
                release_freed_memory()
                released = time.monotonic()
            # Clients that were answered may ask again: with those waiting, this many are expected.
            with self._changed:
                expected = len(jobs) + len(self._waiting)

    def _next_batch(self, expected: int) -> list[Job]:
        """Wait for jobs, and a moment longer for as many as expected; [] when closed."""
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
            if arrived == self._arrived:  # no other request arrives, or the time is up
                return

    def _take(self) -> list[Job]:
        """Remove the oldest job, and others with the same key, from the queue."""
        first = next(iter(self._waiting.values()))
        most = MAX_WITH_ATTENTION if first.key.options.attention else self._max_batch
        taken: dict[int, Job] = {}
        sentences = 0
        for number, job in self._waiting.items():
            if job.key != first.key or (taken and sentences + job.sentences > most):
                continue
            taken[number] = job
            sentences += job.sentences
            if sentences >= most:
                break
        is_alone = len({job.request for job in taken.values()}) == 1
        self._taken_at, self._taken = time.monotonic(), list(taken.values())
        for number in taken:
            job = self._waiting.pop(number)
            job.ran_undisturbed = is_alone and time.monotonic() - job.queued_at < PROMPT_S
        return list(taken.values())

    def _run(self, jobs: list[Job]) -> None:
        began = time.perf_counter()
        was_cancelled = False
        results: Sequence[Translation | Exception] = []
        try:
            with cancelled_when(lambda: all(job.future.done() for job in jobs)):
                results = _translated(jobs)
        except Cancelled:
            was_cancelled = True
        seconds = time.perf_counter() - began
        sentences = sum(job.sentences for job in jobs)
        batch = FinishedBatch(jobs[0].key.pair, sentences, seconds, was_cancelled)
        assert self._loop is not None, "the thread is started by start"
        self._loop.call_soon_threadsafe(self._deliver, jobs, results, batch)
        self._taken = []

    def _deliver(
        self, jobs: list[Job], results: Sequence[Translation | Exception], batch: FinishedBatch
    ) -> None:
        """Set the futures, in the event loop, and report the batch."""
        for job, result in zip(jobs, results, strict=False):  # no results if it was cancelled
            if job.future.done():
                continue
            if isinstance(result, Exception):
                job.future.set_exception(result)
            else:
                job.future.set_result(result)
        if not batch.was_cancelled:
            rate = batch.sentences / max(batch.seconds, 1e-6)
            before = self._sentences_per_s or rate
            self._sentences_per_s = before + 0.2 * (rate - before)
        self._on_batch(batch)


def _translated(jobs: list[Job]) -> Sequence[Translation | Exception]:
    """Translate lines together; if that fails, one by one, so that only the faulty line fails."""
    key = jobs[0].key
    try:
        found = key.translator.translate([job.line for job in jobs], key.options)
        if len(found) != len(jobs):
            raise RuntimeError(f"{len(found)} translations of {len(jobs)} lines")
        return found
    except Cancelled:
        raise
    except Exception as fault:  # noqa: BLE001 - the request that it belongs to gets it
        if len(jobs) == 1:
            return [fault]
    except BaseException as fault:  # noqa: BLE001 - a panic of a library written in Rust
        if len(jobs) == 1:
            return [RuntimeError(f"the model for {key.pair} has failed: {fault!r}")]
    return [result for job in jobs for result in _translated([job])]
