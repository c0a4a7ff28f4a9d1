"""What the program that watches a run measures for its stop conditions: CPU and GPU use, progress, cost."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from batchai_magics.launch.plan import UNREADABLE
from batchai_magics.metrics.measurement import Record
from batchai_magics.metrics.reading.progress_reader import ProgressReader
from batchai_magics.metrics.runs.stop_evaluation import StopEvaluation
from batchai_magics.metrics.runs.tidy_table import numbers
from batchai_magics.models.prices import NodeTime, Price
from batchai_magics.models.stop_conditions import COST, CPU, GPU, PROGRESS
from batchai_magics.untrusted_files import open_file, parse_json

USAGE_S = 2.0  # how often samples are read
READ_BYTES = 1 << 20  # of samples, at a time


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
            found = parse_json(line)
            if isinstance(found, dict) and isinstance(reason := found.get(UNREADABLE), str):
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
        self._folder, self._since = folder, since
        self._files: dict[str, _SampleFile] = {}

    def new_means(self) -> dict[str, float]:
        """The means over all ranks and GPUs by name, if there are new samples; else empty."""
        names = sorted(path.name for path in self._folder.glob("*.jsonl"))
        files = [self._files.setdefault(name, _SampleFile(self._folder / name)) for name in names]
        new_counts = [file.read(self._since) for file in files]
        if not sum(new_counts):
            return {}
        values = {CPU: [each for file in files for each in file.cpu_percents]}
        values[GPU] = [each for file in files for each in file.gpu_percents]
        return {name: math.fsum(each) / len(each) for name, each in values.items() if each}


class _SampleFile:
    """The latest sample in a file, and the rates since the one before it."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0
        self._time, self._cpu_s = 0.0, dict[int, float]()
        self.cpu_percents: list[float] = []
        self.gpu_percents: list[float] = []

    def read(self, since: float) -> int:
        """Reads the new samples, and returns how many were taken after a time."""
        found = [sample for sample in self._new_samples() if sample.get("t", 0.0) >= since]
        for sample in found:
            elapsed_s, self._time = sample["t"] - self._time, sample["t"]
            cpu_s = {row[0]: row[1] for row in sample["ranks"]}
            known = self._cpu_s.keys() & cpu_s.keys() if elapsed_s > 0 else ()
            spent_s = [max(0.0, cpu_s[rank] - self._cpu_s[rank]) for rank in known]
            self.cpu_percents = [100 * each / elapsed_s for each in spent_s]
            self.gpu_percents = [percent for _, percent, *_ in sample.get("gpus", ()) if percent is not None]
            self._cpu_s = cpu_s
        return len(found)

    def _new_samples(self) -> Iterator[Mapping[str, Any]]:
        with open_file(self._path) as file:
            data = os.pread(file.fileno(), READ_BYTES, self._offset)
        end = data.rfind(b"\n") + 1
        self._offset += end
        for line in data[:end].splitlines():
            try:
                yield parse_json(line)
            except ValueError:  # torn: the disk was full
                continue
