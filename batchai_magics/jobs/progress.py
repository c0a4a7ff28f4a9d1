"""How far a job is, or came, from the ends of its logs as they stand."""

from __future__ import annotations

import time

from batchai_magics.backends.base import Backend, Chunk, FileRef
from batchai_magics.follow.chunk_readers import read_progress
from batchai_magics.jobs.logs import shown
from batchai_magics.metrics.progress.progress_reader import EPOCH_BYTES, Progress, ProgressReader
from batchai_magics.models.execution import ERR, OUT
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState


def progress_of(backend: Backend, job: JobResource) -> Progress | None:
    """How far a job is that runs, or came that did not succeed; None for another, and where none tells."""
    if not counts(job) or job.execution is None:
        return None
    reader = ProgressReader(job.execution.started.timestamp())
    now = time.time()
    ends = [(name, end_of(backend, FileRef(job.id, name))) for name in (OUT, ERR)]
    for name, chunk in sorted(ends, key=lambda end: _written(end[1], now)):
        read_progress(reader, name, chunk, now=now)
    return reader.progress


def counts(job: JobResource) -> bool:
    """Whether it matters how far the job is: while it runs, and when it was ended before its time."""
    return job.is_running or (job.state is ExecutionState.FAILED and job.execution is not None)


def progress_words(job: JobResource, progress: Progress, now: float) -> str:
    """It in one line, of a job that counts: `45 %, 45/100, 3 min left`, `failed at step 120/500, 24 %`."""
    return progress.sentence(now) if job.is_running else f"{job.word} at {progress.position_text}"


def end_of(backend: Backend, file: FileRef) -> Chunk:
    """As much of the end of a log as a reader of progress looks at, its secrets hidden."""
    size = shown(backend, file, 0, 0).size
    return shown(backend, file, max(0, size - EPOCH_BYTES), EPOCH_BYTES)


def _written(chunk: Chunk, now: float) -> float:
    """When the last of it was written."""
    return chunk.times[-1].time if chunk.times else now
