"""A job's images/sec by step, downsampled, and its progress, read incrementally from its logs."""

from __future__ import annotations

import time
from collections.abc import Iterable

from batchai_magics.backends.base import Backend, Chunk, FileRef
from batchai_magics.backends.service.log_records import records_in
from batchai_magics.follow.follower import read_progress
from batchai_magics.metrics import Parser
from batchai_magics.metrics.progress.progress_reader import EPOCH_BYTES, Progress, ProgressReader
from batchai_magics.metrics.record import Record, StepRecord
from batchai_magics.models.job_execution import ERR, OUT
from batchai_magics.models.resource_ids import ResourceId

CHUNK_BYTES = 1 << 18  # per read
TAIL_BYTES = 1 << 20  # only this much of a longer log is read
MAX_STEPS = 200
MAX_VALUES = 40


class RateReader:
    """The images/sec of one job by step, summed over its ranks, and its progress.

    Each `advance` reads a chunk of the log and, if `tells_progress`, the end of stderr.
    """

    def __init__(
        self, backend: Backend, job: ResourceId, *, began: float | None = None, tells_progress: bool = True
    ) -> None:
        self._backend = backend
        self._file = FileRef(job, OUT)
        self._errors = FileRef(job, ERR)
        self._parser = Parser({})
        self._progress = ProgressReader(began)
        self._tells_progress = tells_progress
        self._offset: int | None = None
        self._errors_end = 0
        self._by_step: dict[int, dict[int | None, float]] = {}
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
        return self._read(chunk) | (self._tells_progress and self._read_errors())

    @property
    def progress(self) -> Progress | None:
        """The job's progress, if its output reports it."""
        return self._progress.progress

    @property
    def values(self) -> list[float]:
        """At most `MAX_VALUES` rates, evenly spaced over the steps that all ranks have completed."""
        ranks = max(map(len, self._by_step.values()), default=0)
        rates = [sum(by_rank.values()) for by_rank in self._by_step.values() if len(by_rank) == ranks]
        if len(rates) > MAX_VALUES:
            stride = (len(rates) - 1) / (MAX_VALUES - 1)
            rates = [rates[round(i * stride)] for i in range(MAX_VALUES)]
        return [round(rate, 1) for rate in rates]

    def _read(self, chunk: Chunk) -> bool:
        if not chunk.data:
            return False
        is_further = read_progress(self._progress, OUT, chunk.redacted, now=time.time())
        return self._add(records_in(chunk, self._parser)) | is_further

    def _read_errors(self) -> bool:
        size = self._backend.read(self._errors, 0, 0).size
        start = min(size, max(self._errors_end, size - EPOCH_BYTES))
        self._errors_end = size
        if start == size:
            return False
        chunk = self._backend.read(self._errors, start, size - start)
        return read_progress(self._progress, ERR, chunk.redacted, now=time.time())

    def _add(self, records: Iterable[Record]) -> bool:
        steps = [record for record in records if isinstance(record, StepRecord)]
        for record in steps:
            self._by_step.setdefault(record.step, {})[record.rank] = record.images_per_sec
        if len(self._by_step) > MAX_STEPS:
            self._by_step = dict(list(self._by_step.items())[::-1][::2][::-1])
        return bool(steps)

    def _restart(self) -> None:
        self._parser, self._offset, self._by_step = Parser({}), 0, {}
