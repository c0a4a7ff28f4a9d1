"""The access log of requests, without secrets, and their metrics for Prometheus."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

from batchai_magics.backends.folders.private_files import append
from batchai_magics.models.wire_times import wire_time
from batchai_magics.server.api_call import ApiResponse

MAX_LOG_BYTES = 10 << 20  # rotated when the file reaches this size
MAX_LOG_FILES = 5
_READ_METHODS = ("GET", "HEAD", "OPTIONS")


class AccessLog:
    """The access log of a server. It never contains query strings or bodies."""

    def __init__(self, file: Path, *, max_bytes: int = MAX_LOG_BYTES) -> None:
        self._file, self._max_bytes = file, max_bytes
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="access-log")

    def record(
        self, method: str, path: str, status: int, more: Mapping[str, object], *, is_read: bool = False
    ) -> None:
        """Appends a line for a request, unless it was a read that was not rejected."""
        if (is_read or method in _READ_METHODS) and status not in (401, 403):
            return
        time = wire_time(datetime.now(timezone.utc))
        line = {"time": time, "method": method, "path": path, "status": status, **more}
        self._writer.submit(self._write, json.dumps(line, ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Flushes pending lines and stops the writer."""
        self._writer.shutdown()

    def _write(self, line: str) -> None:
        if self._file.exists() and self._file.stat().st_size >= self._max_bytes:
            for number in range(MAX_LOG_FILES - 1, 0, -1):
                older = self._numbered(number)
                if older.exists():
                    older.replace(self._numbered(number + 1))
            self._file.replace(self._numbered(1))
        append(self._file, line)

    def _numbered(self, number: int) -> Path:
        return self._file.with_name(f"{self._file.name}.{number}")


_SECONDS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)


class ServerMetrics:
    """Counts requests, rejections and request bodies, and measures response times."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._responses = Counter(
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
        self.open = Gauge("batchai_requests_open", "Requests under way", registry=self._registry)
        self.rejected = Counter(
            "batchai_requests_refused", "Requests turned away: too many at once", registry=self._registry
        )
        self.unfinished_bodies = Gauge(
            "batchai_bodies_unfinished", "Request bodies that are being read", registry=self._registry
        )
        self.held_bytes = Gauge(
            "batchai_body_held_bytes",
            "Room that is reserved for request bodies",
            ["place"],
            registry=self._registry,
        )
        self.received_bytes = Counter(
            "batchai_body_received_bytes", "Bytes read of request bodies", registry=self._registry
        )

    def count_response(self, method: str, status: int, seconds: float) -> None:
        """Counts a response and its duration."""
        label = method if method in ("GET", "HEAD", "PUT", "POST", "PATCH", "DELETE") else "other"
        self._responses.labels(label, str(status)).inc()
        self._seconds.labels(label).observe(seconds)

    def exposition(self) -> ApiResponse:
        """All metrics in Prometheus' text format."""
        body = generate_latest(self._registry)
        return ApiResponse(200, body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
