"""Reads a running job's logs for what is to stop it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from batchai_magics.backends.base import Span
from batchai_magics.backends.folders import outputs
from batchai_magics.backends.folders.stop_order import StopOrder
from batchai_magics.backends.node import records
from batchai_magics.backends.service.log_records import records_in
from batchai_magics.launch.plan import LogFile, Plan
from batchai_magics.metrics import Parser
from batchai_magics.metrics.runs.stopping import Stopping
from batchai_magics.models.stop_conditions import stop_condition

PIECE_BYTES = 1 << 20


class StopWatch:
    """The logs of one job, read on at each look."""

    def __init__(self, order: StopOrder, plan: Plan) -> None:
        self._stopping = Stopping([stop_condition(text) for text in order.conditions])
        self._logs = [_Log(log, order.patterns) for log in plan.output]

    @property
    def unseen(self) -> list[str]:
        """Conditions about a number that was not printed, each in a sentence."""
        return self._stopping.unseen

    def look(self, now_s: float) -> str:
        """Why the job is to be stopped, by what its logs hold by now; empty while it is not."""
        for log in self._logs:
            log.read(self._stopping, now_s)
        return self._stopping.reason(now_s)


class _Log:
    """How far a log was read."""

    def __init__(self, log: LogFile, patterns: Mapping[str, str]) -> None:
        self._log, self._patterns = log, patterns
        self._parser, self._offset = Parser(patterns), 0

    def read(self, stopping: Stopping, now_s: float) -> None:
        """Takes what is new; a log that was cut begins again."""
        while True:
            chunk = outputs.read(Path(self._log.path), self._offset, PIECE_BYTES, is_complete=False)
            if chunk.size < self._offset:
                self._parser, self._offset = Parser(self._patterns), 0
                continue
            if not chunk.data:
                return
            if self._log.spans:
                written = records.writers(Path(self._log.spans), chunk.offset, chunk.end)
                chunk = replace(chunk, spans=tuple(Span(*record) for record in written))
            self._offset = chunk.end
            stopping.take(records_in(chunk, self._parser), now_s)
