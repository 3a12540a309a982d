"""What the server did, in Prometheus' text format; nothing of what anybody wrote."""

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

from transduce.serving.batcher import Done

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
            "transduce_requests_abandoned", "Clients that did not wait.", registry=self._registry
        )
        self._seconds = Histogram(
            "transduce_request_seconds",
            "From the head of a request to the end of its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._sentences = Counter(
            "transduce_sentences", "Translated sentences.", ["pair"], registry=self._registry
        )
        self._stopped = Counter(
            "transduce_batches_stopped", "Batches nobody waited for.", registry=self._registry
        )
        self._batch = Histogram(
            "transduce_batch_sentences",
            "Sentences that were translated together.",
            buckets=_SENTENCES,
            registry=self._registry,
        )
        self._batch_seconds = Histogram(
            "transduce_batch_seconds", "Of a batch.", buckets=_SECONDS, registry=self._registry
        )
        self._unanswered = Gauge(
            "transduce_queue_sentences",
            "Sentences that wait or are being translated.",
            registry=self._registry,
        )

    def watch_queue(self, unanswered: Callable[[], float]) -> None:
        """Read the length of the queue whenever it is asked for."""
        self._unanswered.set_function(unanswered)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def abandoned(self) -> None:
        """Count a request whose client is gone."""
        self._abandoned.inc()

    def batch(self, done: Done) -> None:
        """Count a batch."""
        if done.was_stopped:
            self._stopped.inc()
            return
        self._sentences.labels(done.pair).inc(done.sentences)
        self._batch.observe(done.sentences)
        self._batch_seconds.observe(done.seconds)

    def text(self) -> bytes:
        """Write everything down."""
        return generate_latest(self._registry)
