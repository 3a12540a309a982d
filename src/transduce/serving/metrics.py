"""What the server did, in Prometheus' text format; nothing of what clients wrote."""

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from transduce.serving.batcher import FinishedBatch

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counters of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "transduce_requests", "Answered requests.", ["route", "status"], registry=self._registry
        )
        self._abandoned = Counter(
            "transduce_requests_abandoned",
            "Requests whose client left before the response.",
            registry=self._registry,
        )
        self._seconds = Histogram(
            "transduce_request_seconds",
            "From the headers of a request to the end of its response.",
            ["route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._sentences = Counter(
            "transduce_sentences", "Translated sentences.", ["pair"], registry=self._registry
        )
        self._cancelled = Counter(
            "transduce_batches_stopped",
            "Batches cancelled because all their clients had left.",
            registry=self._registry,
        )
        self._batch = Histogram(
            "transduce_batch_sentences",
            "Sentences in a batch.",
            buckets=_SENTENCES,
            registry=self._registry,
        )
        self._batch_seconds = Histogram(
            "transduce_batch_seconds",
            "Time to translate a batch.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._unanswered = Gauge(
            "transduce_queue_sentences",
            "Sentences that are waiting or being translated.",
            registry=self._registry,
        )

    def watch_queue(self, unanswered: Callable[[], float]) -> None:
        """Call `unanswered` for the length of the queue whenever the metrics are read."""
        self._unanswered.set_function(unanswered)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def count_abandoned(self) -> None:
        """Count a request whose client has left."""
        self._abandoned.inc()

    def count_batch(self, batch: FinishedBatch) -> None:
        """Count a batch."""
        if batch.was_cancelled:
            self._cancelled.inc()
            return
        self._sentences.labels(batch.pair).inc(batch.sentences)
        self._batch.observe(batch.sentences)
        self._batch_seconds.observe(batch.seconds)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)
