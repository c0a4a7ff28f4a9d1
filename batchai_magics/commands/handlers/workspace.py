"""`batchai workspace …`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from batchai_magics.backends.base import USAGES
from batchai_magics.commands.context import Context
from batchai_magics.commands.handlers import resources
from batchai_magics.config import Settings
from batchai_magics.errors import NotFoundError
from batchai_magics.models.ids import Kind, ResourceId, workspace_id
from batchai_magics.models.resources import Resource, Workspace, WorkspaceSpec
from batchai_magics.models.subscription import Usage
from batchai_magics.models.vm_sizes import lookup

_ANY_GROUP = Settings.resource_group  # the default: nobody has chosen a group


def create(context: Context, arguments: Namespace) -> Resource:
    """Makes a workspace; one that is there is given back as it is."""
    id = context.target(arguments, Kind.WORKSPACE)
    if resources.exists(context, id):
        return context.backend.show(id)
    return context.backend.create(
        id, WorkspaceSpec(location=arguments.location or _group_location(context, id.group))
    )


def show(context: Context, arguments: Namespace) -> Resource:
    """The workspace as it stands."""
    return resources.show(context, arguments, Kind.WORKSPACE)


def list_all(context: Context, arguments: Namespace) -> Sequence[Resource]:
    """The workspaces of the resource group; without one, of the whole subscription."""
    settings = context.under(arguments)
    if arguments.resource_group or settings.resource_group != _ANY_GROUP:
        return context.backend.list(workspace_id(settings), Kind.WORKSPACE)
    groups = [group.name for group in context.groups.list()]
    ids = [workspace_id(replace(settings, resource_group=name)) for name in groups]
    return [workspace for id in ids for workspace in context.backend.list(id, Kind.WORKSPACE)]


def delete(context: Context, arguments: Namespace) -> None:
    """Deletes a workspace with its clusters, experiments and jobs."""
    resources.delete(context, arguments, Kind.WORKSPACE)


def location(context: Context, id: ResourceId) -> str:
    """Where the workspace of a resource is; where it will be, if it is still to be made."""
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
    """Refuses an unknown VM size before anything is made, where sizes are known."""
    if context.backend.capabilities.known_sizes:
        lookup(size)


def ensure(context: Context, id: ResourceId) -> None:
    """Makes the session's own workspace when it is first needed; any other has to be there."""
    if id.workspace == context.settings.workspace and not resources.exists(context, id.workspace_id):
        context.backend.create(id.workspace_id, WorkspaceSpec(location=context.settings.location))


def list_usages(context: Context, arguments: Namespace) -> Sequence[Usage]:
    """What is used of each quota."""
    return USAGES.of(context.backend).list(arguments.location or context.settings.location)
