"""The metrics at ``/metrics``, in the Prometheus format."""

import time
from collections.abc import Collection

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..translating.translator import Translator

# Seconds.
BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, float("inf"))


class Metrics:
    """The metrics of a server.

    Attributes:
        registry: the registry of prometheus-client.
        sentences, characters: the numbers translated, by source and target language.
        requests: the number of requests, by path and status.
        seconds: the response times, by path.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        pair = ["source", "target"]
        self.sentences = Counter(
            "fastdec_sentences", "Sentences translated or scored", pair, registry=self.registry
        )
        self.characters = Counter(
            "fastdec_characters",
            "Characters of texts translated or scored",
            pair,
            registry=self.registry,
        )
        self.requests = Counter(
            "fastdec_requests", "Requests answered", ["path", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "fastdec_request_seconds",
            "Time from a request's header to its response",
            ["path"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._waiting = Gauge(
            "fastdec_sentences_waiting", "Sentences waiting", pair, registry=self.registry
        )
        self._under_way = Gauge(
            "fastdec_sentences_under_way",
            "Sentences being decoded",
            pair,
            registry=self.registry,
        )

    def watch(self, source: str, target: str, translator: Translator) -> None:
        """Report the queue of a translator."""
        self._waiting.labels(source, target).set_function(lambda: translator.queued()[0])
        self._under_way.labels(source, target).set_function(lambda: translator.queued()[1])


class MeasuredApp:
    """Counts and times the requests of an application."""

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: Collection[str]) -> None:
        """
        Args:
            paths: the paths that are labels; other paths have the label ``other``.
        """
        self._app = app
        self._metrics = metrics
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        path = scope["path"] if scope["path"] in self._paths else "other"
        start, status = time.perf_counter(), 500

        async def measured(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, measured)
        finally:
            self._metrics.requests.labels(path, status).inc()
            self._metrics.seconds.labels(path).observe(time.perf_counter() - start)
