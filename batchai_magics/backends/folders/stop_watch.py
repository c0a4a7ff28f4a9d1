"""Reads a running job's logs for what is to stop it.

Of the standard library alone: on a cluster it runs on a node of the job.
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

PIECE_BYTES = 1 << 20
LOOK_S = 0.5  # between two looks at the logs


class StopWatch:
    """The logs of one job, read on at each look."""

    def __init__(self, order: StopIfRequest, plan: Plan) -> None:
        self._stopping = StopEvaluation([stop_condition(text) for text in order.conditions])
        self._logs = [_Log(log, order.patterns) for log in plan.output]

    @property
    def unseen(self) -> list[str]:
        """Conditions about a number that was not printed, each in a sentence."""
        return self._stopping.unseen

    def check(self, now_s: float) -> str:
        """Why the job is to be stopped, by what its logs hold by now; empty while it is not."""
        for log in self._logs:
            log.read(self._stopping, now_s)
        return self._stopping.reason(now_s)

    def follow(self, over: threading.Event) -> str:
        """Looks until the job is to be stopped, and gives why; empty when it was over before that."""
        while True:
            is_last = over.is_set()
            reason = self.check(time.monotonic())
            if reason or is_last:
                return "" if is_last else reason
            over.wait(LOOK_S)


class _LogSlice(NamedTuple):
    """Some new bytes of a log, and who wrote which of them."""

    data: bytes
    offset: int
    spans: Sequence[RankSpan]
    times: Sequence[output_records.TimeRecord] = ()


class _Log:
    """How far a log was read."""

    def __init__(self, log: LogFile, patterns: Mapping[str, str]) -> None:
        self._log, self._patterns = log, patterns
        self._parser, self._offset = Parser(patterns), 0

    def read(self, stopping: StopEvaluation, now_s: float) -> None:
        """Takes what is new; a log that was cut begins again."""
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
    """The next bytes of a file, opened afresh, and its size; OSError for anything but a regular file."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return b"", 0
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "is no regular file", str(file))
        return os.pread(descriptor, PIECE_BYTES, offset), found.st_size
    finally:
        os.close(descriptor)
