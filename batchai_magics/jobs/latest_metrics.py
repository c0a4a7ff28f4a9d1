"""The latest metrics of a job, from the ends of its logs: for lists, which cannot read whole logs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from batchai_magics.backends.base import Backend, Chunk, FileRef
from batchai_magics.backends.service.log_records import PrintedNumbers, records_in
from batchai_magics.errors import BatchAIError
from batchai_magics.launch.plan import TRAINER_LOG
from batchai_magics.metrics import Parser, Record
from batchai_magics.metrics.reading.metric_suggestions import MetricSuggester
from batchai_magics.metrics.runs.metric_traits import NO_PREFERENCES, MetricPreferences
from batchai_magics.metrics.runs.run_metrics import RunMetrics, run_metrics
from batchai_magics.metrics.runs.timeline import in_time_order
from batchai_magics.models.job_execution import ERR, OUT
from batchai_magics.models.resources import JobResource

TAIL_BYTES = 1 << 15  # of each log


def latest_metrics(
    backend: Backend,
    job: JobResource,
    preferences: MetricPreferences = NO_PREFERENCES,
    *,
    patterns: Mapping[str, str] = MappingProxyType({}),
) -> RunMetrics:
    """The metrics at the ends of a job's logs, as `LogEnds` reads them."""
    return LogEnds(backend, job, patterns).metrics(preferences)


class LogEnds:
    """The last 32 KiB of a job's stdout, stderr and trainer's files, each read once, when it is needed.

    A job that was deleted meanwhile has none.

    Args:
        backend: The job's backend.
        job: The job.
        patterns: The regular expressions of the job's own metrics (`--metric`).
    """

    def __init__(
        self, backend: Backend, job: JobResource, patterns: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._backend, self._job = backend, job
        self._patterns = {**(job.spec.batchai_patterns or {}), **patterns}
        self._chunks: dict[str, Chunk | None] = {}
        self._records: dict[str, list[Record]] = {}
        self._mismatches: list[str] = []

    def metrics(self, preferences: MetricPreferences = NO_PREFERENCES) -> RunMetrics:
        """The metrics that stdout tells, else stderr, and the trainer's files."""
        printed = self._read(OUT, self._patterns)
        found = run_metrics(printed, preferences)
        if not found:
            printed = self._read(ERR, self._patterns)
            found = run_metrics(printed, preferences)
        logged = self._read(TRAINER_LOG, {})
        if not logged:
            return found
        numbers = PrintedNumbers()
        parts = [numbers.new_printed(printed), numbers.new_logged(logged)]
        return run_metrics(in_time_order(parts), preferences)

    @property
    def are_whole_logs(self) -> bool:
        """Whether the logs that were read have no beginning that was not: best values are then known."""
        return not any(chunk and chunk.offset for chunk in self._chunks.values())

    @property
    def notices(self) -> tuple[str, ...]:
        """What the user should know: matches that are not numbers, and what would read numbers of stdout."""
        found = self.metrics()
        chunk = self._chunk(OUT)
        if found or chunk is None:
            return tuple(self._mismatches)
        data, suggester = chunk.redacted.data, MetricSuggester()
        suggester.scan(data.partition(b"\n")[2] if chunk.offset else data)
        suggestions = [str(suggester.suggestion)] if suggester.suggestion else []
        return (*self._mismatches, *suggestions)

    def _read(self, name: str, patterns: Mapping[str, str]) -> list[Record]:
        if name not in self._records:
            chunk, parser = self._chunk(name), Parser(patterns)
            self._records[name] = [*records_in(chunk.redacted, parser), *parser.finish()] if chunk else []
            self._mismatches += map(str, parser.mismatches)
        return self._records[name]

    def _chunk(self, name: str) -> Chunk | None:
        if name not in self._chunks:
            self._chunks[name] = _last_chunk(self._backend, FileRef(self._job.id, name))
        return self._chunks[name]


def _last_chunk(backend: Backend, file: FileRef) -> Chunk | None:
    """The end of a log, None if it is empty or cannot be read: one request if it is empty, else two."""
    try:
        size = backend.read(file, 0, 0).size
        return backend.read(file, max(0, size - TAIL_BYTES), TAIL_BYTES) if size else None
    except BatchAIError:
        return None
