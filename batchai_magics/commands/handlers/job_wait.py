"""The messages of `job wait` and `run`: those about states in the words of `az batchai job wait`."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timezone
from itertools import chain

from batchai_magics.backends.base import Backend, FileRef
from batchai_magics.commands.output.command_progress import CommandExit, LogOutput, Message, StreamParts
from batchai_magics.follow import (
    METRICS_FILES,
    ConnectionLost,
    ConnectionRestored,
    Event,
    JobFailed,
    LogBytes,
    MetricsAdded,
    Standstill,
    StateChanged,
    events,
)
from batchai_magics.follow.job_errors import paths_of
from batchai_magics.follow.wait_reason import QueueState
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.watch_records import stalled_s
from batchai_magics.metrics import Record
from batchai_magics.metrics.runs.stop_evaluation import STOP_IF, StopEvaluation
from batchai_magics.models.job_execution import ERR, ExecutionInfo
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState
from batchai_magics.models.stop_conditions import conditions_of, stop_condition
from batchai_magics.records.job_error import NO_PATHS, JobError

CANCELLED_CODE = 143  # 128 + SIGTERM; 130 means that watching was interrupted
TIMEOUT_CODE = 124  # as timeout(1)
NOT_REACHED_CODE = 4  # the job ended before the condition of --until was met
ENDED = "ended"
_NO_EXIT_CODE = 255


def watch_job(
    backend: Backend, id: ResourceId, *, logs: Collection[str] = (), is_az: bool = False
) -> StreamParts:
    """Yields messages about state changes, the bytes of `logs`, and at the end the job's exit code.

    With `is_az`, a failure is reported in the words of `az`.
    """
    messages, error = StateMessages(), None
    paths = paths_of(Job(backend, id).show()) if logs else NO_PATHS
    files, limit_s = [FileRef(id, name) for name in logs], stalled_s() if logs else 0.0
    for event in chain.from_iterable(events(backend, id, files=files, stalled_s=limit_s)):
        yield from messages.of(event)
        if isinstance(event, LogBytes):
            yield LogOutput(paths.bytes_with_user_paths(event.chunk.data), is_error=event.file.path == ERR)
        elif isinstance(event, JobFailed):
            error = event.error
        elif isinstance(event, ConnectionLost | ConnectionRestored | Standstill):
            yield Message(event.sentence)
    if messages.job is not None:
        yield from map(Message, _end_lines(messages.job, error, logs, is_az=is_az))
        yield job_exit(messages.job, error)


class WaitGoal:
    """What `--until` waits for: conditions on metrics, and whether the end of the job counts too.

    Args:
        text: Conditions and `ended`, joined by `or`: `loss < 0.3 or ended`.

    Raises:
        UsageError: A condition is invalid.
    """

    def __init__(self, text: str) -> None:
        parts = [part.strip() for part in re.split(r"\s+or\s+", text.strip(), flags=re.IGNORECASE)]
        conditions = [part for part in parts if part.lower() != ENDED]
        conditions_of(conditions, "--until")
        self.counts_end = len(conditions) < len(parts)
        self._evaluation = StopEvaluation([stop_condition(part) for part in conditions])

    def reached_by(self, records: Iterable[Record]) -> str:
        """Why the wait is over after the next records; empty if it is not."""
        now = time.monotonic()
        self._evaluation.add(records, now)
        return self._evaluation.reason(now).removeprefix(STOP_IF).strip()

    def exit_of(self, job: JobResource, error: JobError | None) -> CommandExit:
        """The exit code after the job has ended without reaching a condition."""
        end = job_exit(job, error)
        if self.counts_end or end.exit_code:
            return end
        return CommandExit(NOT_REACHED_CODE, f'the job "{job.id.name}" ended before --until was met')


def wait_for(backend: Backend, id: ResourceId, goal: WaitGoal, timeout_s: float | None = None) -> StreamParts:
    """Yields messages until the goal is reached, the job has ended or the time is up, and the exit code."""
    stop, messages, error = threading.Event(), StateMessages(), None
    timer = threading.Timer(timeout_s, stop.set) if timeout_s is not None else None
    if timer:
        timer.daemon = True
        timer.start()
    try:
        job = Job(backend, id)
        patterns = {**(job.show().spec.batchai_patterns or {}), **job.patterns}
        files = [FileRef(id, name) for name in METRICS_FILES]
        batches = events(backend, id, files=files, patterns=patterns, stop=stop)
        for event in chain.from_iterable(batches):
            if isinstance(event, MetricsAdded) and (reason := goal.reached_by(event.records)):
                yield Message(reason)
                yield CommandExit(0)
                return
            yield from messages.of(event)
            if isinstance(event, JobFailed):
                error = event.error
        last = messages.job
        if last is not None and last.state.is_final:
            yield from map(Message, _end_lines(last, error))
            end = goal.exit_of(last, error)
            if end.exit_code == NOT_REACHED_CODE:
                yield Message(end.text)
            yield end
        else:
            text = f'the job "{id.name}" is still running: --until was not met within {timeout_s:g} s'
            yield Message(text)
            yield CommandExit(TIMEOUT_CODE, text)
    finally:
        if timer:
            timer.cancel()


class StateMessages:
    """The messages about the state of a job, and about what it waits for."""

    def __init__(self) -> None:
        self.job: JobResource | None = None
        self._queue, self._reason = QueueState(), ""

    def of(self, event: Event) -> Iterator[Message]:
        """The messages about what the next event changes."""
        self._queue.take(event)
        if isinstance(event, StateChanged):
            yield from map(Message, _changes(self.job, event.job))
            self.job = event.job
        reason = self._queue.reason(self.job) if self.job else ""
        if reason and reason != self._reason:
            yield Message(f"Job is waiting: {reason}")
        self._reason = reason


def _changes(previous: JobResource | None, job: JobResource) -> Iterator[str]:
    """The changes of a job since its previous resource."""
    if previous is None:
        yield f"Job submitted at {_utc_time(job.provisioning.created)}"
    if job.execution and job.has_begun and not (previous and previous.has_begun):
        yield f"Job started execution at {_utc_time(job.execution.started)}"
    reported = max(0, len(previous.attempts) - 1) if previous else 0  # all but the current one have ended
    yield from (f"Job was restarted: {attempt.sentence}" for attempt in job.attempts[reported:-1])
    if previous is None or job.state is not previous.state:
        yield f"Job state: {job.word}"


def _end_lines(
    job: JobResource, error: JobError | None, logs: Collection[str] = (), *, is_az: bool = False
) -> Iterator[str]:
    """The outcome of an ended job, with the last lines of a failure unless its log was printed."""
    if not job.state.is_final:
        return
    if is_az or error is None:
        yield from _outcome(job)
    else:
        yield error.sentence
        yield from (f"  {line}" for line in error.lines if error.log not in logs)
        yield from error.hints
    if not (is_az and job.has_failed):
        yield from (f"Warning: {warning.message}" for warning in job.warnings)


def _outcome(job: JobResource) -> Iterator[str]:
    info = job.execution
    if info is None or info.ended is None:
        times = "?"
    else:
        times = f"{_utc_time(info.ended)}; execution took {info.ended - info.started}"
    if job.state is ExecutionState.SUCCEEDED:
        yield f"Job completed at {times}"
    elif job.is_cancelled:
        yield f"Job was cancelled at {times}"
    elif job.is_stopped:
        yield f"Job was stopped at {times}"
        yield from (error.message for error in (job.execution.errors if job.execution else ()))
    else:
        yield f'The job "{job.id.name}" in resource group "{job.id.group}" failed.'
        yield from _failure(job.execution, times)


def _failure(info: ExecutionInfo | None, times: str) -> Iterator[str]:
    if info is None:
        yield "Failed job has no execution info"
        return
    code = info.exit_code
    how = "ended without an exit code" if code is None else f"failed with exit code {code}"
    yield f"Job {how} at {times}"
    for error in info.errors:
        details = "\n  ".join(f"{detail.name}: {detail.value}" for detail in error.details or ())
        yield f"Error message: {error.message}\nDetails:\n  {details or '<none>'}"


def job_exit(job: JobResource, error: JobError | None = None) -> CommandExit:
    """The exit code of an ended job, and why it did not succeed."""
    if job.state is ExecutionState.SUCCEEDED:
        return CommandExit(0)
    if job.is_cancelled:
        return CommandExit(CANCELLED_CODE, f'the job "{job.id.name}" was cancelled')
    if job.is_stopped:
        reasons = "; ".join(error.message for error in job.failures)
        return CommandExit(CANCELLED_CODE, f'the job "{job.id.name}" was stopped: {reasons}')
    code = job.execution.exit_code if job.execution else None
    how = "without an exit code" if code is None else f"with exit code {code}"
    text = error.sentence if error else f"{job.id.name} failed {how}"
    return CommandExit(_NO_EXIT_CODE if code is None else code, text)


def _utc_time(moment: datetime) -> str:
    return str(moment.astimezone(timezone.utc))
