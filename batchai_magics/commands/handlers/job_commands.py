"""`batchai job …`, and the short forms `cancel`, `ps` and `watch`."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from batchai_magics.backends.base.protocol import run_names
from batchai_magics.commands.handlers import resource_commands
from batchai_magics.commands.output.command_progress import (
    LogOutput,
    Message,
    Stream,
    StreamParts,
    job_stream,
    resume_command,
)
from batchai_magics.commands.output.command_result import ValueWithNotes
from batchai_magics.commands.output.job_list import JobList, NewestFirst
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from batchai_magics.commands.command_context import Context
    from batchai_magics.commands.output.command_progress import Operation


MAX_WATCHED = 20  # of the newest jobs that `watch` shows beside those that wait or run

# The modules for logs and job specs are slow to import, so only the commands that need them do.


def create(context: Context, arguments: Namespace) -> ValueWithNotes | Operation | Stream:
    """Creates a job from its file, or one from each of several files.

    Notebooks display the returned handle live.
    """
    from batchai_magics.commands.handlers import job_submission
    from batchai_magics.jobs.submit import submit

    if arguments.dry_run:
        return Stream(_previews(context, arguments), "Nothing was written or submitted.")
    if job_submission.is_bulk(arguments.config_file):
        return job_submission.create(context, arguments)
    ((id, file),) = job_submission.job_ids_and_files(context, arguments)
    request = job_submission.read_new_job(context, arguments, id, file)
    submitted = submit(context.backend, request, context.settings)
    notes = (*job_submission.default_name_note(arguments, id), *request.notes, submitted.note)
    return ValueWithNotes(submitted.job, tuple(filter(None, notes)))


def _previews(context: Context, arguments: Namespace) -> StreamParts:
    """The dry run of each file, after all are validated."""
    from batchai_magics.commands.handlers import job_submission
    from batchai_magics.commands.output.dry_run import dry_run_text

    parts: list[Message | LogOutput] = []
    previous_ids: list[ResourceId] = []
    for id, file in job_submission.job_ids_and_files(context, arguments):
        request = job_submission.read_job_file(context, arguments, id, file)
        text = dry_run_text(request, context.settings, created_before=previous_ids)
        previous_ids.append(id)
        parts += [*map(Message, request.notes), LogOutput(f"{text}\n".encode())]
    return (part for part in parts)


def show(context: Context, arguments: Namespace) -> ValueWithNotes:
    """The handle of the job, which notebooks display live."""
    from batchai_magics.jobs.job_handle import Job

    job = resource_commands.show_job(context, arguments)
    return ValueWithNotes(Job(context.backend, job.id), later_run_notes(context, job))


def later_run_notes(context: Context, job: JobResource) -> tuple[str, ...]:
    """A message that an ended job has later runs, since its name alone means the first one; or empty."""
    if not job.state.is_final:
        return ()
    names = run_names(context.backend.names(job.id.parent, Kind.JOB, job.id.name), job.id.name)
    is_latest = not names or names[-1].lower() == job.id.name.lower()
    return () if is_latest else (f"{names[-1]} is the latest run of {job.id.name}.",)


def list_all(context: Context, arguments: Namespace) -> ValueWithNotes:
    """The jobs of the experiment, or its newest `--top`."""
    experiment = context.experiment(arguments)
    is_selecting = bool(arguments.tag or arguments.where)
    newest = None if is_selecting else arguments.top
    jobs = resource_commands.list_jobs(context, experiment, newest=newest)
    notes = idle_notes(context, arguments)
    if is_selecting:
        from batchai_magics.jobs.run_selection import RunSelection

        selection = RunSelection.of(arguments.tag or (), arguments.where or ())
        selected = selection.of_jobs(context.backend, jobs)
        jobs, notes = selected.jobs[-(arguments.top or 0) :], (*selected.notes, *notes)
    names = tuple(arguments.metric or ())
    job_list = JobList(jobs, context.backend, metrics=names, has_all_parameters=bool(arguments.parameters))
    return ValueWithNotes(job_list, notes)


def idle_notes(context: Context, arguments: Namespace) -> tuple[str, ...]:
    """A message for each cluster of the workspace whose idle nodes cost money."""
    if not (context.settings.prices or context.backend.prices):
        return ()
    from batchai_magics.jobs.job_costs import JobCosts

    clusters = resource_commands.list_children(context, context.workspace(arguments), Kind.CLUSTER)
    return tuple(JobCosts(context.backend, context.settings).idle_notes(clusters))


def wait(context: Context, arguments: Namespace) -> Stream:
    """Reports the progress of the job until it has ended, or until the goal of `--until` is reached."""
    from batchai_magics.commands.handlers.job_wait import ENDED, WaitGoal, wait_for, watch_job
    from batchai_magics.models.wire_times import duration
    from batchai_magics.options.job_options import short_duration

    goal, limit = WaitGoal(arguments.until or ENDED), None
    if arguments.timeout is not None:
        limit = duration(short_duration("--timeout", arguments.timeout)).total_seconds()
    id = resource_commands.show_job(context, arguments).id
    parts = watch_job(context.backend, id, is_az=arguments.is_az)
    if arguments.until or limit:
        parts = wait_for(context.backend, id, goal, limit)
    return job_stream(parts, resume_command(id, "job wait -n"))


def terminate(context: Context, arguments: Namespace) -> None:
    """Terminates the job; repeating it has no effect, as on the wire."""
    context.backend.terminate(context.target(arguments, Kind.JOB))


def delete(context: Context, arguments: Namespace) -> Operation | None:
    """Deletes a job, or all jobs in a state; running ones are terminated first."""
    from batchai_magics.commands.handlers import job_submission

    job_submission.check_selection(arguments)
    if arguments.state:
        return job_submission.delete(context, arguments)
    resource_commands.delete(context, arguments, Kind.JOB)
    return None


def cancel(context: Context, arguments: Namespace) -> ValueWithNotes:
    """Cancels a job."""
    job = resource_commands.show_job(context, arguments)
    if job.state.is_final:
        note = f"{job.id.name} has already ended ({job.word})."
        return ValueWithNotes(None, (note, *later_run_notes(context, job)))
    is_again = job.state is ExecutionState.TERMINATING
    context.backend.terminate(job.id, now=is_again)
    if is_again:
        return ValueWithNotes(None, (f"Killing {job.id.name}.",))
    hint = "; again, to kill it before it has saved" if job.is_running else ""
    return ValueWithNotes(None, (f"Cancelling {job.id.name}{hint}.",))


def active(context: Context, arguments: Namespace) -> ValueWithNotes:
    """The jobs of the experiment that have not ended."""
    jobs = resource_commands.list_jobs(context, context.experiment(arguments))
    unfinished = [job for job in jobs if not job.state.is_final]
    notes = () if unfinished else ("No jobs are queued or running.",)
    if any(job.state is ExecutionState.QUEUED for job in unfinished):
        from batchai_magics.follow.wait_reason import with_wait_reasons

        unfinished = with_wait_reasons(context.backend, unfinished)
    job_list = JobList(unfinished, context.backend, has_elapsed=True)
    notes = (*notes, *_warnings(context, unfinished), *idle_notes(context, arguments))
    return ValueWithNotes(job_list, notes)


def _warnings(context: Context, jobs: Iterable[JobResource]) -> Iterator[str]:
    """Warnings about running jobs that may hang."""
    running = [job for job in jobs if job.is_running]
    if not running:
        return
    from batchai_magics.follow.hang_signs import hang_signs
    from batchai_magics.jobs.watch_records import stalled_s

    for job in running:
        signs = hang_signs(context.backend, job, stalled_s(context.settings))
        yield from (f"Warning: {job.id.name}: {sign}" for sign in signs)


def watched(context: Context, arguments: Namespace) -> JobList:
    """The jobs that wait or run and the newest others, newest first: what `watch` shows at one moment."""
    jobs = resource_commands.list_jobs(context, context.experiment(arguments))
    newest = {job.id.key for job in jobs[-MAX_WATCHED:]}
    shown = (job for job in jobs if job.id.key in newest or not job.state.is_final)
    return NewestFirst(shown, context.backend, has_elapsed=True)
