"""`batchai workspace …`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from batchai_magics.backends.base import USAGES
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import resource_commands
from batchai_magics.config import Settings
from batchai_magics.errors import NotFoundError
from batchai_magics.models.resource_ids import Kind, ResourceId, workspace_id
from batchai_magics.models.resources import Resource, Workspace, WorkspaceSpec
from batchai_magics.models.subscription import Usage
from batchai_magics.models.vm_sizes import lookup

_ANY_GROUP = Settings.resource_group  # the default: no group was chosen


def create(context: Context, arguments: Namespace) -> Resource:
    """Creates a workspace; returns an existing one unchanged."""
    id = context.target(arguments, Kind.WORKSPACE)
    if resource_commands.exists(context, id):
        return context.backend.show(id)
    return context.backend.create(
        id, WorkspaceSpec(location=arguments.location or _group_location(context, id.group))
    )


def show(context: Context, arguments: Namespace) -> Resource:
    """The workspace named on the line."""
    return resource_commands.show(context, arguments, Kind.WORKSPACE)


def list_all(context: Context, arguments: Namespace) -> Sequence[Resource]:
    """The workspaces of the resource group, by default of the whole subscription."""
    settings = context.settings_for(arguments)
    if arguments.resource_group or settings.resource_group != _ANY_GROUP:
        return context.backend.list(workspace_id(settings), Kind.WORKSPACE)
    groups = [group.name for group in context.groups.list()]
    ids = [workspace_id(replace(settings, resource_group=name)) for name in groups]
    return [workspace for id in ids for workspace in context.backend.list(id, Kind.WORKSPACE)]


def delete(context: Context, arguments: Namespace) -> None:
    """Deletes a workspace with its clusters, experiments and jobs."""
    resource_commands.delete(context, arguments, Kind.WORKSPACE)


def location(context: Context, id: ResourceId) -> str:
    """The location of a resource's workspace, existing or about to be created."""
    try:
        workspace = context.backend.show(id.workspace_id)
    except NotFoundError:
        return context.settings.location
    assert isinstance(workspace, Workspace)
    return workspace.location


def _group_location(context: Context, group: str) -> str:
    try:
        return context.groups.show(group).location
    except NotFoundError:
        return context.settings.location


def check_size(context: Context, size: str) -> None:
    """Raises ServiceError for an unknown VM size, on backends with a fixed list of sizes."""
    if context.backend.capabilities.known_sizes:
        lookup(size)


def ensure(context: Context, id: ResourceId) -> None:
    """Creates the session's default workspace on first use; any other must exist."""
    if id.workspace == context.settings.workspace and not resource_commands.exists(context, id.workspace_id):
        context.backend.create(id.workspace_id, WorkspaceSpec(location=context.settings.location))


def list_usages(context: Context, arguments: Namespace) -> Sequence[Usage]:
    """The usage of each quota."""
    asked = arguments.location or location(context, workspace_id(context.settings))
    return USAGES.of(context.backend).list(asked)
