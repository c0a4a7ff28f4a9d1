"""Evaluates a job's stop conditions against what one of its processes prints and uses."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from batchai_magics.backends.folders.run_measures import RunMeasures, unreadable_files
from batchai_magics.launch.plan import Plan
from batchai_magics.metrics.measurement import Measurement
from batchai_magics.metrics.reading.log_parser import Parser
from batchai_magics.metrics.runs.stop_evaluation import MAX_NAMES, StopEvaluation
from batchai_magics.models.prices import NodeTime, Price
from batchai_magics.models.runs.watch_request import WatchRequest
from batchai_magics.models.stop_conditions import MEASURED, metric_name, stop_condition
from batchai_magics.records.record_files import WATCH


class ConditionWatch:
    """The stop conditions of a job, and the metrics of one process so far.

    Every rank checks what it prints. What is measured (progress, use, cost) only the first one checks, for
    its node.
    """

    def __init__(self, bundle: Mapping[str, Any], rank: int, plan: Plan) -> None:
        measured = MEASURED - set(map(metric_name, bundle["patterns"]))
        conditions = [stop_condition(text) for text in bundle["stop_if"]]
        own = [each for each in conditions if rank == 0 or each.metric not in measured]
        self._parser, self._file_parser, self._size_bytes = Parser(bundle["patterns"]), Parser({}), 0
        self._rank = rank if len(plan.processes) > 1 else None
        self._evaluation = StopEvaluation(own, measured, time.monotonic())
        times, telemetry = [NodeTime(len(plan.nodes), time.time())], Path(plan.telemetry)
        records = bundle["records"]
        request = WatchRequest.from_json(records[WATCH]) if WATCH in records else None
        price = Price(request.node_price) if request and request.node_price else None
        self._measures = RunMeasures(self._evaluation, telemetry, price, times)
        self._file_size_bytes, self._unreadable = 0, list[str]()

    def feed(self, data: bytes) -> None:
        """Takes the next bytes that the process has printed."""
        self._size_bytes += len(data)
        records = self._parser.feed(data, self._rank)
        self._evaluation.add(records, time.monotonic())
        self._measures.take(records, data, "stdout")

    def read_file(self, path: Path) -> None:
        """Takes the numbers that were appended to a log of what trainers write into files."""
        if not path.exists():
            return
        with path.open("rb") as stream:
            stream.seek(self._file_size_bytes)
            data = stream.read()
        self._file_size_bytes += len(data)
        self._unreadable += unreadable_files(data)
        records = [
            record._replace(rank=None) if self._rank is None and isinstance(record, Measurement) else record
            for record in self._file_parser.feed(data, self._rank)
        ]
        self._evaluation.add(records, time.monotonic())
        self._measures.take(records, data, str(path))

    @property
    def reason(self) -> str:
        """Why the job should be stopped; empty if it should not."""
        now_s = time.monotonic()
        self._measures.measure(self._size_bytes + self._file_size_bytes, now_s)
        return self._evaluation.reason(now_s)

    @property
    def unchecked(self) -> dict[str, Any]:
        """What `unchecked_conditions` of `run_records` needs, as JSON."""
        return {"seen": self._evaluation.seen, "unreadable": self._unreadable[:MAX_NAMES]}
