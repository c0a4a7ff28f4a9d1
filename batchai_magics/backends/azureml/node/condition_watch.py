"""Evaluates a job's stop conditions against what one of its processes prints and uses."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from batchai_magics.backends.folders.run_measures import RunMeasures
from batchai_magics.metrics.reading.log_parser import Parser
from batchai_magics.metrics.runs.stop_evaluation import StopEvaluation
from batchai_magics.models.prices import NodeTime, Price
from batchai_magics.models.runs.watch_request import WatchRequest
from batchai_magics.models.stop_conditions import MEASURED, metric_name, stop_condition
from batchai_magics.records.record_files import WATCH


class ConditionWatch:
    """The stop conditions of a job, and the metrics of one process so far.

    Every rank checks what it prints. What is measured (progress, use, cost) only the first one checks, for
    its node.
    """

    def __init__(self, bundle: Mapping[str, Any], rank: int, telemetry: Path, node_count: int) -> None:
        measured = MEASURED - set(map(metric_name, bundle["patterns"]))
        conditions = [stop_condition(text) for text in bundle["stop_if"]]
        own = [each for each in conditions if rank == 0 or each.metric not in measured]
        self._parser, self._rank, self._size_bytes = Parser(bundle["patterns"]), rank, 0
        self._evaluation = StopEvaluation(own, measured, time.monotonic())
        times = [NodeTime(node_count, time.time())]
        self._measures = RunMeasures(self._evaluation, telemetry, _price(bundle["records"]), times)

    def feed(self, data: bytes) -> None:
        """Takes the next bytes that the process has printed."""
        self._size_bytes += len(data)
        records = self._parser.feed(data, self._rank)
        self._evaluation.add(records, time.monotonic())
        self._measures.take(records, data, "stdout")

    @property
    def reason(self) -> str:
        """Why the job should be stopped; empty if it should not."""
        now_s = time.monotonic()
        self._measures.measure(self._size_bytes, now_s)
        return self._evaluation.reason(now_s)


def _price(records: Mapping[str, str]) -> Price | None:
    """The price of a node, if its submitter knew it."""
    request = WatchRequest.from_json(records[WATCH]) if WATCH in records else None
    return Price(request.node_price) if request and request.node_price else None
