"""`batchai workspace …`, `experiment …` and `list-usages`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Generator, Sequence
from dataclasses import replace

from batchai_magics.backends.base import USAGES
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import resource_commands
from batchai_magics.commands.output.command_progress import Operation
from batchai_magics.config import Settings
from batchai_magics.errors import JobFailedError
from batchai_magics.follow import endings
from batchai_magics.models.resource_ids import Kind, ResourceId, workspace_id
from batchai_magics.models.resources import ExperimentSpec, JobResource, Resource, WorkspaceSpec
from batchai_magics.models.states import ExecutionState
from batchai_magics.models.subscription import Usage

_ANY_GROUP = Settings.resource_group  # the default: no group was chosen


def create_workspace(context: Context, arguments: Namespace) -> Resource:
    """Creates a workspace; returns an existing one unchanged."""
    id = context.target(arguments, Kind.WORKSPACE)
    if context.exists(id):
        return context.backend.show(id)
    region = arguments.location or context.group_location(id.group)
    return context.backend.create(id, WorkspaceSpec(location=region))


def list_workspaces(context: Context, arguments: Namespace) -> Sequence[Resource]:
    """The workspaces of the resource group, by default of the whole subscription."""
    settings = context.settings_for(arguments)
    if arguments.resource_group or settings.resource_group != _ANY_GROUP:
        return context.backend.list(workspace_id(settings), Kind.WORKSPACE)
    groups = [group.name for group in context.groups.list()]
    ids = [workspace_id(replace(settings, resource_group=name)) for name in groups]
    return [workspace for id in ids for workspace in context.backend.list(id, Kind.WORKSPACE)]


def list_usages(context: Context, arguments: Namespace) -> Sequence[Usage]:
    """The usage of each quota."""
    location = arguments.location or context.workspace_location(workspace_id(context.settings))
    return USAGES.of(context.backend).list(location)


def create_experiment(context: Context, arguments: Namespace) -> Resource:
    """Creates an experiment; returns an existing one unchanged."""
    id = context.target(arguments, Kind.EXPERIMENT)
    context.ensure_workspace(id)
    return context.backend.create(id, ExperimentSpec())


def wait_for_experiment(context: Context, arguments: Namespace) -> Operation:
    """Waits until all jobs of the experiment have ended; raises JobFailedError if any of them failed."""
    id = context.experiment(Namespace(**{**vars(arguments), "experiment": arguments.name}))
    jobs = resource_commands.list_jobs(context, id)
    back = f"The jobs keep running. To resume: batchai experiment wait -n {id.name} -w {id.workspace}"
    return Operation("Waiting", len(jobs), "job", _wait_for_all(context, id, jobs), back)


def _wait_for_all(
    context: Context, id: ResourceId, jobs: Sequence[JobResource]
) -> Generator[int, None, list[JobResource]]:
    for ended in endings(context.backend, [job.id for job in jobs]):
        yield len(ended)
    keys = {job.id.key for job in jobs}
    remaining = [job for job in resource_commands.list_jobs(context, id) if job.id.key in keys]
    unsuccessful = [f"{job.id.name} ({job.word})" for job in remaining if job.state is ExecutionState.FAILED]
    if unsuccessful:
        hint = f"See why: batchai job list -e {id.name} -w {id.workspace} -o table"
        message = f"{len(unsuccessful)} of {len(remaining)} jobs did not succeed: {', '.join(unsuccessful)}"
        raise JobFailedError(message, exit_code=1, hint=hint)
    return remaining
