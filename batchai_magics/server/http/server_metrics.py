"""The server's metrics in Prometheus format."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, cast

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

from batchai_magics.server.api_call import ApiResponse

_SECONDS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)


class ServerMetrics:
    """Counts requests, rejections and request bodies, and measures response times."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._answers = Counter(
            "batchai_requests",
            "Requests answered, by method and status",
            ["method", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "batchai_request_seconds",
            "Time from a request's headers to the end of its answer",
            ["method"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._open = Gauge("batchai_requests_open", "Requests under way", registry=self._registry)
        self._refused = Counter(
            "batchai_requests_refused", "Requests turned away: too many at once", registry=self._registry
        )

        self._unfinished = Gauge(
            "batchai_bodies_unfinished", "Request bodies that are being read", registry=self._registry
        )
        self._held = Gauge(
            "batchai_body_held_bytes",
            "Room that is reserved for request bodies",
            ["place"],
            registry=self._registry,
        )
        self._received = Counter(
            "batchai_body_received_bytes", "Bytes read of request bodies", registry=self._registry
        )

    def in_progress(self) -> AbstractContextManager[Any]:
        """Counts a request as open inside the block."""
        return cast("AbstractContextManager[Any]", self._open.track_inprogress())

    def count_response(self, method: str, status: int, seconds: float) -> None:
        """Counts a response and its duration."""
        word = method if method in ("GET", "HEAD", "PUT", "POST", "PATCH", "DELETE") else "other"
        self._answers.labels(word, str(status)).inc()
        self._seconds.labels(word).observe(seconds)

    def count_rejected(self) -> None:
        """Counts a request rejected by a limit."""
        self._refused.inc()

    def set_bodies(self, unfinished: int, *, memory_bytes: int, disk_bytes: int) -> None:
        """Sets the number of unfinished bodies and the room reserved for bodies."""
        self._unfinished.set(unfinished)
        self._held.labels("memory").set(memory_bytes)
        self._held.labels("disk").set(disk_bytes)

    def count_body_bytes(self, count: int) -> None:
        """Counts received bytes of request bodies."""
        self._received.inc(count)

    def exposition(self) -> ApiResponse:
        """All metrics in Prometheus' text format."""
        body = generate_latest(self._registry)
        return ApiResponse(200, body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
