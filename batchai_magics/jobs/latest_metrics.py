"""The latest metrics of a job, from the ends of its logs: for lists, which cannot read whole logs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from batchai_magics.backends.base import Backend, Chunk, FileRef
from batchai_magics.backends.service.log_records import PrintedNumbers, records_in
from batchai_magics.errors import BatchAIError
from batchai_magics.follow.metric_streams import in_order_of_writing
from batchai_magics.launch.plan import TRAINER_LOG
from batchai_magics.metrics import Parser, Record
from batchai_magics.metrics.reading.metric_suggestions import MetricSuggester
from batchai_magics.metrics.runs.metric_traits import NO_PREFERENCES, MetricPreferences
from batchai_magics.metrics.runs.run_metrics import RunMetrics, run_metrics
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
    """The metrics in the last 32 KiB of a job's stdout, else of its stderr, and of its trainer's files.

    A job that was deleted meanwhile has none.

    Args:
        backend: The job's backend.
        job: The job.
        preferences: What the user has said of metrics.
        patterns: The regular expressions of the job's own metrics (`--metric`).
    """
    expressions = {**(job.spec.batchai_patterns or {}), **patterns}
    printed = _last_records(backend, job, OUT, expressions)
    found = run_metrics(printed, preferences)
    if not found:
        printed = _last_records(backend, job, ERR, expressions)
        found = run_metrics(printed, preferences)
    logged = _last_records(backend, job, TRAINER_LOG, {})
    if not logged:
        return found
    numbers = PrintedNumbers()
    parts = [numbers.new_printed(printed), numbers.new_logged(logged)]
    return run_metrics(in_order_of_writing(parts), preferences)


def unread_numbers(backend: Backend, job: JobResource) -> tuple[str, ...]:
    """What would read the numbers at the end of the stdout of a job without metrics; empty without any."""
    chunk = _last_chunk(backend, job, OUT)
    if chunk is None:
        return ()
    data, suggester = chunk.redacted.data, MetricSuggester()
    suggester.scan(data.partition(b"\n")[2] if chunk.offset else data)
    return (str(suggester.suggestion),) if suggester.suggestion else ()


def _last_records(backend: Backend, job: JobResource, name: str, patterns: Mapping[str, str]) -> list[Record]:
    """The records at the end of a log."""
    chunk = _last_chunk(backend, job, name)
    if chunk is None:
        return []
    parser = Parser(dict(patterns))
    return [*records_in(chunk.redacted, parser), *parser.finish()]


def _last_chunk(backend: Backend, job: JobResource, name: str) -> Chunk | None:
    """The end of a log, None if it is empty or cannot be read: one request if it is empty, else two."""
    file = FileRef(job.id, name)
    try:
        size = backend.read(file, 0, 0).size
        return backend.read(file, max(0, size - TAIL_BYTES), TAIL_BYTES) if size else None
    except BatchAIError:
        return None
