"""Evaluates a running job's stop conditions on its logs.

Standard library only: on a cluster it runs on a node of the job.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.folders.stop_order import StopIfRequest
from batchai_magics.backends.node import output_records
from batchai_magics.backends.node.output_records import RankSpan
from batchai_magics.backends.service.log_records import records_in
from batchai_magics.launch.plan import LogFile, Plan
from batchai_magics.metrics.reading.log_parser import Parser
from batchai_magics.metrics.runs.stop_evaluation import StopEvaluation
from batchai_magics.models.stop_conditions import stop_condition

BLOCK_BYTES = 1 << 20
POLL_S = 0.5  # poll interval


class StopWatch:
    """Reads the logs of a job incrementally, and evaluates its stop conditions."""

    def __init__(self, request: StopIfRequest, plan: Plan) -> None:
        self._stopping = StopEvaluation([stop_condition(text) for text in request.conditions])
        self._logs = [_Log(log, request.patterns) for log in plan.output]

    @property
    def unseen(self) -> list[str]:
        """Conditions on numbers that were never printed, each in a sentence."""
        return self._stopping.unseen

    def check(self, now_s: float) -> str:
        """Why the job is to be stopped, according to its logs so far; empty if it is not."""
        for log in self._logs:
            log.read(self._stopping, now_s)
        return self._stopping.reason(now_s)

    def follow(self, over: threading.Event) -> str:
        """Polls until the job is to be stopped, and returns the reason; empty if it was over before."""
        while True:
            is_last = over.is_set()
            reason = self.check(time.monotonic())
            if reason or is_last:
                return "" if is_last else reason
            over.wait(POLL_S)


class _LogSlice(NamedTuple):
    """New bytes of a log, and which rank wrote which of them."""

    data: bytes
    offset: int
    spans: Sequence[RankSpan]
    times: Sequence[output_records.TimeRecord] = ()


class _Log:
    """The read position in a log."""

    def __init__(self, log: LogFile, patterns: Mapping[str, str]) -> None:
        self._log, self._patterns = log, patterns
        self._parser, self._offset = Parser(patterns), 0

    def read(self, stopping: StopEvaluation, now_s: float) -> None:
        """Reads what is new; a truncated log is read from its start."""
        while True:
            data, size = _read(Path(self._log.path), self._offset)
            if size < self._offset:
                self._parser, self._offset = Parser(self._patterns), 0
                continue
            start, end, spans = self._offset, self._offset + len(data), Path(self._log.spans)
            if self._log.spans:
                end = output_records.recorded_end(spans, start, end)
            if start == end:
                return
            self._offset = end
            writers = output_records.writers(spans, start, end) if self._log.spans else ()
            stopping.add(records_in(_LogSlice(data[: end - start], start, writers), self._parser), now_s)


def _read(file: Path, offset: int) -> tuple[bytes, int]:
    """The next bytes of a file, newly opened, and its size; OSError if it is not a regular file."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return b"", 0
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(file))
        return os.pread(descriptor, BLOCK_BYTES, offset), found.st_size
    finally:
        os.close(descriptor)
