"""The access log: a JSON line for every request that may have changed something, without secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

from batchai_magics.backends.service.private_files import append
from batchai_magics.models.wire_times import wire_time

MAX_LOG_BYTES = 10 << 20  # rotated when the file reaches this size
MAX_LOG_FILES = 5  # files
_READ_METHODS = ("GET", "HEAD", "OPTIONS")


class AccessLog:
    """The access log of a server. It never contains query strings or bodies."""

    def __init__(self, file: Path, *, largest: int = MAX_LOG_BYTES) -> None:
        self._file, self._largest = file, largest
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="access-log")

    def record(self, method: str, path: str, status: int, more: Mapping[str, object]) -> None:
        """Appends a line for a request, unless it was a successful read."""
        if method in _READ_METHODS and status not in (401, 403):
            return
        time = wire_time(datetime.now(timezone.utc))
        line = {"time": time, "method": method, "path": path, "status": status, **more}
        self._writer.submit(self._write, json.dumps(line, ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Flushes pending lines and stops the writer."""
        self._writer.shutdown()

    def _write(self, line: str) -> None:
        self._rotate()
        append(self._file, line)

    def _rotate(self) -> None:
        if not self._file.exists() or self._file.stat().st_size < self._largest:
            return
        for number in range(MAX_LOG_FILES - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        self._file.replace(self._numbered(1))

    def _numbered(self, number: int) -> Path:
        return self._file.with_name(f"{self._file.name}.{number}")
