"""`batchai experiment …`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Generator, Sequence

from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import resource_commands, workspace_commands
from batchai_magics.commands.output.command_progress import Operation
from batchai_magics.errors import JobFailedError
from batchai_magics.follow import endings
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import ExperimentSpec, JobResource, Resource
from batchai_magics.models.states import ExecutionState


def create(context: Context, arguments: Namespace) -> Resource:
    """Creates an experiment; returns an existing one unchanged."""
    id = context.target(arguments, Kind.EXPERIMENT)
    workspace_commands.ensure(context, id)
    return context.backend.create(id, ExperimentSpec())


def show(context: Context, arguments: Namespace) -> Resource:
    """The experiment named on the line."""
    return resource_commands.show(context, arguments, Kind.EXPERIMENT)


def list_all(context: Context, arguments: Namespace) -> Sequence[Resource]:
    """The experiments of the workspace."""
    return resource_commands.list_children(context, context.workspace(arguments), Kind.EXPERIMENT)


def delete(context: Context, arguments: Namespace) -> None:
    """Deletes an experiment with its jobs."""
    resource_commands.delete(context, arguments, Kind.EXPERIMENT)


def wait(context: Context, arguments: Namespace) -> Operation:
    """Waits until all jobs of the experiment have ended; raises JobFailedError if any of them failed."""
    named = Namespace(**{**vars(arguments), "experiment": arguments.name})
    id = context.experiment(named)
    jobs = resource_commands.list_children(context, id, Kind.JOB)
    back = f"The jobs keep running. To resume: batchai experiment wait -n {id.name} -w {id.workspace}"
    return Operation("Waiting", len(jobs), "job", _wait_for_all(context, id, jobs), back)


def _wait_for_all(
    context: Context, id: ResourceId, jobs: Sequence[Resource]
) -> Generator[int, None, list[Resource]]:
    for ended in endings(context.backend, [job.id for job in jobs]):
        yield len(ended)
    waited_for = {job.id.key for job in jobs}
    remaining = [
        job for job in resource_commands.list_children(context, id, Kind.JOB) if job.id.key in waited_for
    ]
    ill = _unsuccessful(remaining)
    if ill:
        hint = f"See why: batchai job list -e {id.name} -w {id.workspace} -o table"
        message = f"{len(ill)} of {len(remaining)} jobs did not succeed: {', '.join(ill)}"
        raise JobFailedError(message, exit_code=1, hint=hint)
    return remaining


def _unsuccessful(resources: Sequence[Resource]) -> list[str]:
    """The names of jobs that failed, were cancelled or stopped, with their state."""
    jobs = (resource for resource in resources if isinstance(resource, JobResource))
    return [f"{job.id.name} ({job.word})" for job in jobs if job.state is ExecutionState.FAILED]
