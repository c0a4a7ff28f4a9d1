"""What the program that watches a run measures for its stop conditions: CPU and GPU use, progress, cost."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from batchai_magics.backends.folders.rank_files import read_samples
from batchai_magics.launch.plan import UNREADABLE
from batchai_magics.metrics.measurement import Record
from batchai_magics.metrics.reading.progress_reader import ProgressReader
from batchai_magics.metrics.runs.number_frames import numbers
from batchai_magics.metrics.runs.resource_usage import ResourceUsage, UsageRates
from batchai_magics.metrics.runs.stop_evaluation import StopEvaluation
from batchai_magics.models.prices import NodeTime, Price
from batchai_magics.models.stop_conditions import COST, CPU, GPU, PROGRESS
from batchai_magics.models.telemetry_records import TelemetryRecord
from batchai_magics.untrusted_files import parse_json

USAGE_S = 2.0  # how often samples are read


class RunMeasures:
    """Measures what the conditions of a run need, and nothing else.

    `price` is what a node costs, None if it is unknown; `times` are the node times of all attempts so far.
    """

    def __init__(
        self, stopping: StopEvaluation, telemetry: Path, price: Price | None, times: Sequence[NodeTime]
    ) -> None:
        self._stopping, self._price, self._times = stopping, price, times
        self._usage = UsageSamples(telemetry, time.time()) if stopping.needs(CPU, GPU) else None
        self._progress = ProgressMark() if stopping.needs(PROGRESS) else None
        self._usage_due_s = 0.0

    def take(self, records: Sequence[Record], data: bytes, stream: str) -> None:
        """Takes new bytes of a log, and the records in them."""
        if self._progress:
            self._progress.take(records, data, stream)

    def measure(self, size_bytes: int, now_s: float) -> None:
        """Measures once; `size_bytes` is the size of all logs."""
        if self._progress and self._progress.has_advanced(size_bytes):
            self._stopping.advance(now_s)
        if self._price:
            self._stopping.measure(COST, self._price.cost_of(self._times, time.time()).amount, now_s)
        if self._usage and now_s >= self._usage_due_s:
            self._usage_due_s = now_s + USAGE_S
            for name, value in self._usage.new_means().items():
                self._stopping.measure(name, value, now_s)


def unreadable_files(data: bytes) -> Iterator[str]:
    """Which files of trainers cannot be read any more, and why, by the log of their numbers."""
    for line in data.splitlines() if UNREADABLE.encode() in data else ():
        with contextlib.suppress(ValueError):
            content = parse_json(line)
            if isinstance(content, dict) and isinstance(reason := content.get(UNREADABLE), str):
                yield reason


class ProgressMark:
    """Notices progress: a new step or epoch, a bar that has moved, a number without a step that has changed.

    The output of a job without any of these is progress.
    """

    def __init__(self) -> None:
        self._bars = ProgressReader()
        self._marks: dict[object, object] = {}
        self._has_advanced, self._is_known, self._size_bytes = False, False, 0

    def take(self, records: Iterable[Record], data: bytes, stream: str) -> None:
        """Takes new bytes of a log, and the records in them."""
        for number in numbers(records):
            position = number.step, number.epoch
            if position == (None, None):
                self._mark((number.name, number.rank), number.value)
            else:
                self._mark(("position", number.rank), position)
        if self._bars.feed(data, at=time.time(), stream=stream) and (bar := self._bars.progress):
            self._mark(stream, (bar.fraction, bar.words), is_known=bar.fraction < 1)

    def has_advanced(self, size_bytes: int) -> bool:
        """Whether there was progress since the last call; `size_bytes` is the size of all logs."""
        has_grown, self._size_bytes = size_bytes != self._size_bytes, size_bytes
        has_advanced, self._has_advanced = self._has_advanced, False
        return has_advanced or (has_grown and not self._is_known)

    def _mark(self, key: object, mark: object, *, is_known: bool = True) -> None:
        self._is_known = is_known
        if self._marks.get(key) != mark:
            self._marks[key], self._has_advanced = mark, True


class UsageSamples:
    """The mean CPU and GPU use of a run, from the samples of its nodes since a time."""

    def __init__(self, folder: Path, since: float) -> None:
        self._folder, self._since, self._rates = folder, since, UsageRates()
        self._after: dict[str, float] = {}  # the time of the latest sample in each file
        self._latest: dict[str, list[ResourceUsage]] = {}  # its rows

    def new_means(self) -> dict[str, float]:
        """The means over all ranks and GPUs by name, if there are new samples; else empty."""
        has_new = False
        for file in sorted(self._folder.glob("*.jsonl")):
            _, samples = read_samples(file, self._after.get(file.name, self._since))
            if samples:
                has_new, last = True, samples[-1].time
                rows = self._rates.rows(TelemetryRecord({}, tuple(samples), ()))
                self._after[file.name], self._latest[file.name] = last, [r for r in rows if r.time == last]
        if not has_new:
            return {}
        latest = [row for rows in self._latest.values() for row in rows]
        values = {CPU: [row.cpu_percent for row in latest], GPU: [row.gpu_percent for row in latest]}
        known = {
            name: [value for value in column if not math.isnan(value)] for name, column in values.items()
        }
        return {name: math.fsum(column) / len(column) for name, column in known.items() if column}
