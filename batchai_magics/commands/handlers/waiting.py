"""What `job wait` tells, in the words of `az batchai job wait`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timezone

from batchai_magics.backends.base import Backend, FileRef
from batchai_magics.commands.output.stream import Ended, Logged, Parts, Said
from batchai_magics.follow import ConnectionLost, ConnectionRestored, LogBytes, StateChanged, events
from batchai_magics.models.error_details import ErrorDetail
from batchai_magics.models.execution import ERR, ExecutionInfo
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState

CANCELLED_CODE = 143  # as of a process that was ended by SIGTERM; 130 is the watching that was interrupted
_NO_EXIT_CODE = 255


def waiting(backend: Backend, id: ResourceId, *, logs: Collection[str] = ()) -> Parts:
    """The lines of a wait, what is written to the files of `logs`, and the job's exit code at its end."""
    last: JobResource | None = None
    for event in events(backend, id, files=[FileRef(id, name) for name in logs]):
        if isinstance(event, LogBytes):
            yield Logged(event.chunk.data, is_error=event.file.path == ERR)
        elif isinstance(event, StateChanged):
            yield from (Said(line) for line in _news(last, event.job))
            last = event.job
        elif isinstance(event, ConnectionLost | ConnectionRestored):
            yield connection(event)
    if last is not None:
        yield ending(last)


def connection(event: ConnectionLost | ConnectionRestored) -> Said:
    """What people are told of a backend that does not answer any more, and of one that does again."""
    if isinstance(event, ConnectionLost):
        return Said(f"Warning: {event.reason}. Trying again; the job goes on.")
    return Said("Connected again.")


def _news(last: JobResource | None, job: JobResource) -> Iterator[str]:
    """What is new about a job since `last`."""
    if last is None:
        yield f"Job submitted at {_moment(job.provisioning.created)}"
    yield from _starts(last, job)
    if last is None or job.state is not last.state:
        yield f"Job state: {job.word}"
        if job.state.is_final:
            yield from _outcome(job)
    if job.waiting and not (last and last.waiting == job.waiting):
        yield f"Job waits: {job.waiting}"


def _starts(last: JobResource | None, job: JobResource) -> Iterator[str]:
    if job.execution and not (last and last.execution):
        yield f"Job started execution at {_moment(job.execution.started)}"
    if last is None or len(job.attempts) > len(last.attempts):
        yield from (f"Job was begun again: {each.sentence}" for each in job.attempts[:-1][-1:])


def _outcome(job: JobResource) -> Iterator[str]:
    took = _took(job.execution)
    if job.state is ExecutionState.SUCCEEDED:
        yield f"Job completed at {took}"
        errors = job.execution.errors if job.execution else ()
        yield from (f"Warning: {error.message}" for error in errors if error.is_warning)
    elif job.is_cancelled:
        yield f"Job was cancelled at {took}"
    elif job.is_stopped:
        yield f"Job was stopped at {took}"
        yield from (error.message for error in (job.execution.errors if job.execution else ()))
    else:
        yield f'The job "{job.id.name}" in resource group "{job.id.group}" failed.'
        yield from _failure(job.execution, took)


def _failure(info: ExecutionInfo | None, took: str) -> Iterator[str]:
    if info is None:
        yield "Failed job has no execution info"
        return
    code = info.exit_code
    how = "was ended without an exit code" if code is None else f"failed with exit code {code}"
    yield f"Job {how} at {took}"
    yield from map(_error, info.errors)


def _took(info: ExecutionInfo | None) -> str:
    if info is None or info.ended is None:
        return "?"
    return f"{_moment(info.ended)}; execution took {info.ended - info.started}"


def _error(error: ErrorDetail) -> str:
    details = "\n".join(f"{detail.name}: {detail.value}" for detail in error.details or ()) or "<none>"
    return f"Error message: {error.message}\nDetails:\n {details}"


def ending(job: JobResource) -> Ended:
    """The exit code of a job that has ended, and how it ended if not well."""
    if job.state is ExecutionState.SUCCEEDED:
        return Ended(0)
    if job.is_cancelled:
        return Ended(CANCELLED_CODE, f'the job "{job.id.name}" was cancelled')
    if job.is_stopped:
        return Ended(CANCELLED_CODE, f'the job "{job.id.name}" was stopped by a condition of its own')
    code = job.execution.exit_code if job.execution else None
    how = "without an exit code" if code is None else f"with exit code {code}"
    return Ended(_NO_EXIT_CODE if code is None else code, f'the job "{job.id.name}" failed {how}')


def _moment(moment: datetime) -> str:
    return str(moment.astimezone(timezone.utc))
