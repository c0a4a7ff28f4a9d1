"""`batchai cancel`, `ps` and `watch`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator

from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import resource_commands
from batchai_magics.commands.handlers.job_commands import idle_notes
from batchai_magics.commands.output.command_result import ValueWithNotes
from batchai_magics.commands.output.job_list import JobList, NewestFirst
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import JobResource, Resource
from batchai_magics.models.states import ExecutionState

MAX_WATCHED = 20  # of the newest jobs that `watch` shows beside those that wait or run


def cancel(context: Context, arguments: Namespace) -> ValueWithNotes:
    """Cancels a job."""
    job = resource_commands.show(context, arguments, Kind.JOB)
    if isinstance(job, JobResource) and job.state.is_final:
        return ValueWithNotes(None, (f"{job.id.name} has already ended ({job.word}).",))
    is_again = isinstance(job, JobResource) and job.state is ExecutionState.TERMINATING
    context.backend.terminate(job.id, now=is_again)
    if is_again:
        return ValueWithNotes(None, (f"Killing {job.id.name}.",))
    is_running = isinstance(job, JobResource) and job.is_running
    more = "; again, to kill it before it has saved" if is_running else ""
    return ValueWithNotes(None, (f"Cancelling {job.id.name}{more}.",))


def active(context: Context, arguments: Namespace) -> ValueWithNotes:
    """The jobs of the experiment that have not ended."""
    from batchai_magics.follow.wait_reason import with_wait_reasons

    jobs = resource_commands.list_children(context, context.experiment(arguments), Kind.JOB)
    left = with_wait_reasons(context.backend, _unfinished(jobs))
    notes = () if left else ("No jobs are queued or running.",)
    shown = JobList(left, context.backend, has_elapsed=True)
    return ValueWithNotes(shown, (*notes, *_warnings(context, left), *idle_notes(context, arguments)))


def _unfinished(jobs: Iterable[Resource]) -> Iterator[JobResource]:
    return (job for job in jobs if isinstance(job, JobResource) and not job.state.is_final)


def _warnings(context: Context, jobs: Iterable[Resource]) -> Iterator[str]:
    """What the running jobs may suffer from."""
    from batchai_magics.follow.hang_signs import hang_signs
    from batchai_magics.jobs.watch_records import stalled_s

    for job in jobs:
        if isinstance(job, JobResource) and job.is_running:
            signs = hang_signs(context.backend, job, stalled_s(context.settings))
            yield from (f"Warning: {job.id.name}: {sign}" for sign in signs)


def watched(context: Context, arguments: Namespace) -> JobList:
    """The jobs that wait or run and the newest others, newest first: what `watch` shows at one moment."""
    found = resource_commands.list_children(context, context.experiment(arguments), Kind.JOB)
    jobs = [job for job in found if isinstance(job, JobResource)]
    newest = {job.id.key for job in jobs[-MAX_WATCHED:]}
    shown = (job for job in jobs if job.id.key in newest or not job.state.is_final)
    return NewestFirst(shown, context.backend, has_elapsed=True)
