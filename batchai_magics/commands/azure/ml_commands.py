"""`ml job …`: jobs in the words of `az ml`, which names them by workspace and not by experiment."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from batchai_magics.commands.handlers import resource_commands
from batchai_magics.commands.output.command_result import ValueWithNotes
from batchai_magics.commands.output.job_list import JobList
from batchai_magics.errors import NotFoundError
from batchai_magics.models.job_execution import OUT
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource

if TYPE_CHECKING:
    from batchai_magics.commands.command_context import Context
    from batchai_magics.commands.output.command_progress import Stream
    from batchai_magics.jobs.job_handle import Job


def list_jobs(context: Context, arguments: Namespace) -> JobList:
    """The jobs of all experiments, newest first."""
    jobs = [
        job
        for experiment in _experiments(context, arguments)
        for job in resource_commands.list_jobs(context, experiment)
    ]
    jobs.sort(key=lambda job: job.provisioning.created, reverse=True)
    return JobList(jobs[: arguments.max_results], context.backend)


def show_job(context: Context, arguments: Namespace) -> Job:
    """The handle of the job, which notebooks display live."""
    from batchai_magics.jobs.job_handle import Job

    return Job(context.backend, _find(context, arguments).id)


def stream_job(context: Context, arguments: Namespace) -> Stream:
    """Streams the job's log until it has ended."""
    from batchai_magics.backends.base import FileRef
    from batchai_magics.commands.handlers.output_file_commands import stream_parts
    from batchai_magics.commands.output.command_progress import job_stream, resume_command

    id = _find(context, arguments).id
    return job_stream(stream_parts(context.backend, FileRef(id, OUT)), resume_command(id, "logs -f"))


def cancel_job(context: Context, arguments: Namespace) -> ValueWithNotes:
    """Cancels the job."""
    job = _find(context, arguments)
    if job.state.is_final:
        return ValueWithNotes(None, (f"{job.id.name} has already ended ({job.word}).",))
    context.backend.terminate(job.id)
    return ValueWithNotes(None, (f"Cancelling {job.id.name}.",))


def _find(context: Context, arguments: Namespace) -> JobResource:
    """The job of a name, in the configured experiment or in any other.

    Raises:
        NotFoundError: No experiment has it; the hint suggests similar names of the configured one.
    """
    for experiment in _experiments(context, arguments):
        try:
            job = context.backend.show(experiment.child(Kind.JOB, arguments.name))
        except NotFoundError:
            continue
        if isinstance(job, JobResource):
            return job
    return resource_commands.show_job(context, arguments)


def _experiments(context: Context, arguments: Namespace) -> Iterator[ResourceId]:
    """The experiments of the workspace, the configured one first."""
    workspace, configured = context.workspace(arguments), context.settings.experiment
    experiments = resource_commands.list_children(context, workspace, Kind.EXPERIMENT)
    for experiment in sorted(experiments, key=lambda item: item.id.name.lower() != configured.lower()):
        yield experiment.id
