"""Evaluates a job's stop conditions against what one of its processes prints."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from batchai_magics.metrics.reading.log_parser import Parser
from batchai_magics.metrics.runs.stop_evaluation import StopEvaluation
from batchai_magics.models.stop_conditions import stop_condition


class ConditionWatch:
    """The stop conditions of a job, and the metrics of one process so far."""

    def __init__(self, conditions: Sequence[str], patterns: Mapping[str, str], rank: int) -> None:
        self._parser, self._rank = Parser(patterns), rank
        self._evaluation = StopEvaluation([stop_condition(text) for text in conditions])

    def feed(self, data: bytes) -> None:
        """Takes the next bytes that the process has printed."""
        self._evaluation.add(self._parser.feed(data, self._rank), time.monotonic())

    @property
    def reason(self) -> str:
        """Why the job should be stopped; empty if it should not."""
        return self._evaluation.reason(time.monotonic())
