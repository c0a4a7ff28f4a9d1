"""The latest metrics of a job, from the ends of its logs: for lists, which cannot read whole logs."""

from __future__ import annotations

from batchai_magics.backends.base import Backend, FileRef
from batchai_magics.backends.service.log_records import records_in
from batchai_magics.errors import BatchAIError
from batchai_magics.follow.metric_streams import METRICS_FILES
from batchai_magics.metrics import Parser, Record
from batchai_magics.metrics.runs.metric_traits import NO_PREFERENCES, MetricPreferences
from batchai_magics.metrics.runs.run_metrics import RunMetrics, run_metrics
from batchai_magics.models.resources import JobResource

TAIL_BYTES = 1 << 15  # of each log


def latest_metrics(
    backend: Backend, job: JobResource, preferences: MetricPreferences = NO_PREFERENCES
) -> RunMetrics:
    """The metrics in the last 32 KiB of a job's stdout, else of its stderr, else of its trainer's files.

    A job that was deleted meanwhile has none.
    """
    found = RunMetrics(())
    for name in METRICS_FILES:  # each costs two requests
        found = found or run_metrics(_last_records(backend, job, name), preferences)
    return found


def _last_records(backend: Backend, job: JobResource, name: str) -> list[Record]:
    file = FileRef(job.id, name)
    try:
        begin = max(0, backend.read(file, 0, 0).size - TAIL_BYTES)
        chunk = backend.read(file, begin, TAIL_BYTES)
    except BatchAIError:
        return []
    parser = Parser(dict(job.spec.batchai_patterns or {}))
    return [*records_in(chunk.redacted, parser), *parser.finish()]
