"""A job's headline metric by step, downsampled, and its progress, read incrementally from its logs."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from batchai_magics.backends.base import Backend, Chunk, FileRef
from batchai_magics.backends.service.log_records import PrintedNumbers, records_in
from batchai_magics.follow.follower import read_progress
from batchai_magics.launch.plan import TRAINER_LOG
from batchai_magics.metrics import Parser
from batchai_magics.metrics.measurement import Measurement, Record
from batchai_magics.metrics.progress.progress_reader import EPOCH_BYTES, Progress, ProgressReader
from batchai_magics.metrics.runs.metric_traits import (
    NO_PREFERENCES,
    MetricPreferences,
    MetricTraits,
    headline_of,
    traits_of,
)
from batchai_magics.metrics.runs.tidy_table import Number, numbers
from batchai_magics.metrics.runs.timeline import Timeline
from batchai_magics.models.job_execution import ERR, OUT
from batchai_magics.models.resource_ids import ResourceId

CHUNK_BYTES = 1 << 18  # per read
TAIL_BYTES = 1 << 20  # only this much of a longer log is read
MAX_STEPS = 200
MAX_VALUES = 40
_SPREADS = frozenset(["uncertainty", "jitter", "total_images_per_sec"])  # of images/sec


class RateReader:
    """The headline metric of one job by step, over all ranks, and its progress.

    Each `advance` reads a chunk of the log, one of what trainers have logged to files and, if
    `tells_progress`, the end of stderr.
    """

    def __init__(
        self,
        backend: Backend,
        job: ResourceId,
        *,
        began: float | None = None,
        tells_progress: bool = True,
        preferences: MetricPreferences = NO_PREFERENCES,
        patterns: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._patterns = dict(patterns)
        self._backend = backend
        self._file = FileRef(job, OUT)
        self._errors, self._trainer_file = FileRef(job, ERR), FileRef(job, TRAINER_LOG)
        self._parser, self._trainer_parser = Parser(self._patterns), Parser({})
        self._progress = ProgressReader(began)
        self._tells_progress = tells_progress
        self._offset: int | None = None
        self._errors_end = self._trainer_offset = 0
        self._preferences = preferences
        self._clear()
        self.read_count = 0
        self.is_drained = False  # the log is complete and has been read to the end

    def advance(self) -> bool:
        """Reads the next chunk; returns whether it brought new values."""
        self.read_count += 1
        if self._offset is None:
            self._offset = max(0, self._backend.read(self._file, 0, 0).size - TAIL_BYTES)
        chunk = self._backend.read(self._file, self._offset, CHUNK_BYTES)
        self.is_drained = chunk.is_complete and chunk.end >= chunk.size
        if chunk.size < self._offset:
            self._restart()
            return True
        self._offset = chunk.end
        is_new = self._read(chunk) | self._read_trainer_files()
        return is_new | (self._tells_progress and self._read_errors())

    @property
    def progress(self) -> Progress | None:
        """The job's progress, if its output reports it."""
        return self._progress.progress

    @property
    def label(self) -> str:
        """The name of the headline metric, for display; empty without one."""
        return self._metrics[self._headline].label if self._headline else ""

    @property
    def values(self) -> list[float]:
        """At most `MAX_VALUES` values of the headline metric, evenly spaced over its steps.

        Own rates of ranks are summed, over the steps that all ranks have completed; other metrics averaged.
        """
        by_step = self._by_step.get(self._headline, {})
        is_sum = bool(by_step) and self._metrics[self._headline].is_summed
        ranks = max(map(len, by_step.values()), default=0)
        every = [list(of.values()) for of in by_step.values() if not is_sum or len(of) == ranks]
        values = [sum(of) if is_sum else sum(of) / len(of) for of in every]
        if len(values) > MAX_VALUES:
            stride = (len(values) - 1) / (MAX_VALUES - 1)
            values = [values[round(i * stride)] for i in range(MAX_VALUES)]
        return [float(f"{value:.6g}") for value in values if math.isfinite(value)]

    def _read(self, chunk: Chunk) -> bool:
        if not chunk.data:
            return False
        is_further = read_progress(self._progress, OUT, chunk.redacted, now=time.time())
        printed = self._numbers.new_printed(records_in(chunk, self._parser))
        return self._add(printed) | is_further

    def _read_trainer_files(self) -> bool:
        chunk = self._backend.read(self._trainer_file, self._trainer_offset, CHUNK_BYTES)
        self._trainer_offset = chunk.end
        self.is_drained &= chunk.end >= chunk.size
        return self._add(self._numbers.new_logged(records_in(chunk, self._trainer_parser)))

    def _read_errors(self) -> bool:
        size = self._backend.read(self._errors, 0, 0).size
        start = min(size, max(self._errors_end, size - EPOCH_BYTES))
        self._errors_end = size
        if start == size:
            return False
        chunk = self._backend.read(self._errors, start, size - start)
        return read_progress(self._progress, ERR, chunk.redacted, now=time.time())

    def _add(self, records: Iterable[Record]) -> bool:
        count = 0
        every = list(records)
        self._timeline.add([record for record in every if isinstance(record, Measurement)])
        for number in numbers(
            self._timeline.placed(each) if isinstance(each, Measurement) else each for each in every
        ):
            if number.metric not in _SPREADS:
                self._add_number(number)
                count += 1
        if count:
            self._headline = headline_of(self._metrics.values(), self._preferences)
        return count > 0

    def _add_number(self, number: Number) -> None:
        self._metrics.setdefault(number.metric, traits_of(number.metric, unit=number.unit))
        by_step = self._by_step.setdefault(number.metric, {})
        step = number.step
        self._counts[number.metric, number.rank] += 1
        by_step.setdefault(self._counts[number.metric, number.rank] if step is None else step, {})[
            number.rank
        ] = number.value
        if len(by_step) > MAX_STEPS:
            self._by_step[number.metric] = dict(list(by_step.items())[::-1][::2][::-1])

    def _restart(self) -> None:
        self._parser, self._offset = Parser(self._patterns), 0
        self._trainer_parser, self._trainer_offset = Parser({}), 0
        self._clear()

    def _clear(self) -> None:
        self._metrics: dict[str, MetricTraits] = {}
        self._by_step: dict[str, dict[int, dict[int | None, float]]] = {}
        self._counts: Counter[tuple[str, int | None]] = Counter()
        self._timeline, self._numbers = Timeline(), PrintedNumbers()
        self._headline = ""
