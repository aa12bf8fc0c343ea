"""What Prometheus asks for at /metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """The counters of one server.

    >>> metrics = Metrics()
    >>> metrics.refusals.labels("queue_full").inc()
    >>> b'xmtc_refusals_total{reason="queue_full"} 1.0' in metrics.text()
    True
    """

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "xmtc_requests", "Requests that were answered.", ["method", "path", "status"], registry=registry
        )
        self.seconds = Histogram(
            "xmtc_request_seconds",
            "Seconds from the head of a request to the end of its answer.",
            ["path"],
            buckets=SECONDS,
            registry=registry,
        )
        self.refusals = Counter(
            "xmtc_refusals", "Requests that were refused, by reason.", ["reason"], registry=registry
        )
        self.waiting = Gauge(
            "xmtc_queue_documents", "Documents that wait for the inference thread.", ["model"], registry=registry
        )
        self.batch_documents = Histogram(
            "xmtc_batch_documents",
            "Documents that were predicted at once.",
            ["model"],
            buckets=SIZES,
            registry=registry,
        )
        self.batch_seconds = Histogram(
            "xmtc_batch_seconds", "Seconds that a batch took.", ["model"], buckets=SECONDS, registry=registry
        )
        self.documents = Counter("xmtc_documents", "Documents that were predicted.", ["model"], registry=registry)
        self.gone = Counter(
            "xmtc_clients_gone", "Requests whose client did not wait for the answer.", registry=registry
        )
        self.model = Gauge(
            "xmtc_model_info",
            "1 for the version of a model that is served.",
            ["model", "version", "kind"],
            registry=registry,
        )
        self.swaps = Counter("xmtc_model_swaps", "New versions that were taken over.", ["model"], registry=registry)
        self.bad_folders = Counter(
            "xmtc_model_refused", "New model folders that were refused.", ["model"], registry=registry
        )
        self.feedback = Counter("xmtc_feedback", "Feedback that was written down.", ["model"], registry=registry)
        self.ready = Gauge("xmtc_ready", "1 while the server is ready.", registry=registry)

    def text(self) -> bytes:
        """All of them in the text format of Prometheus."""
        return generate_latest(self.registry)
