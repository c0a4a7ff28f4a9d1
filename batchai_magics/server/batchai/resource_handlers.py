"""Handlers of resources of the Batch AI API: create, show, list, update, delete; quotas, operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from batchai_magics.backends.base import USAGES, Spec
from batchai_magics.backends.service import extension_bodies
from batchai_magics.models.cluster_spec import ClusterPatch, ClusterSpec
from batchai_magics.models.file_server import FileServerSpec
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId, check_group_name
from batchai_magics.models.resources import (
    Cluster,
    ExperimentSpec,
    Resource,
    Workspace,
    WorkspacePatch,
    WorkspaceSpec,
)
from batchai_magics.records.record_checks import check_confined
from batchai_magics.server.api_call import ApiCall, ApiError, ApiResponse
from batchai_magics.server.batchai.batchai_responses import (
    accepted_response,
    page_number,
    page_response,
    requested_page,
    resource_json,
    resource_response,
)
from batchai_magics.server.handler_context import HandlerContext, show_or_none
from batchai_magics.server.operations import DELETE

_SPEC_PARSERS: Mapping[Kind, Callable[[ApiCall], Spec]] = {
    Kind.WORKSPACE: lambda call: WorkspaceSpec.from_wire(call.json()),
    Kind.EXPERIMENT: lambda call: ExperimentSpec(),
    Kind.CLUSTER: lambda call: ClusterSpec.from_wire(call.json()),
    Kind.JOB: lambda call: JobSpec.from_wire(
        {key: value for key, value in call.json().items() if key != extension_bodies.RECORDS_KEY}
    ),
    Kind.FILE_SERVER: lambda call: FileServerSpec.from_wire(call.json()),
}
_NAMES_QUERY = "batchainames"  # query parameter of our own client: list only names, with this prefix
_SYNCHRONOUS = (Kind.WORKSPACE, Kind.EXPERIMENT)  # the service created these before responding


def create(kind: Kind, context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Creates a resource of a kind, or returns an identical existing one."""
    id, spec = call.id(kind), _SPEC_PARSERS[kind](call)
    existing = show_or_none(context.backend.show, id)
    records = _records(call, spec) if isinstance(spec, JobSpec) else {}
    resource = create_owned(context, call.user.name, id, spec, is_new=existing is None, records=records)
    if existing:
        return resource_response(context, resource)
    if kind in _SYNCHRONOUS or call.prefers_resource:
        return resource_response(context, resource)
    return accepted_response(context, call, context.operations.record_completed(id))


def create_owned(
    context: HandlerContext,
    owner: str,
    id: ResourceId,
    spec: Spec,
    *,
    is_new: bool,
    records: Mapping[str, str] | None = None,
) -> Resource:
    """Creates a resource and records its owner, in the backend if it supports that."""
    if context.backend.ownership or not is_new:
        return context.backend.create(id, spec, owner=owner, records=records)
    with context.owners.record_creation(id.key, owner):
        return context.backend.create(id, spec, records=records)


def _records(call: ApiCall, spec: JobSpec) -> Mapping[str, str]:
    """The record files that our own client sends with a job.

    Commands and exports run as the owner of this server, as jobs without a container do; a job that is
    confined to a container must not escape it that way.
    """
    try:
        records = extension_bodies.submitted_records(call.json())
        if spec.container_settings:
            check_confined(records)
        return records
    except ValueError as error:
        raise ApiError(400, "InvalidRequestContent", f"{error}.") from None


def show(kind: Kind, context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Shows a resource of a kind."""
    return resource_response(context, context.backend.show(call.id(kind)))


def list_in(parent: Kind, kind: Kind, context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Lists the resources of a kind in a workspace or experiment, oldest first."""
    if _NAMES_QUERY in call.query:
        names = context.backend.names(call.id(parent), kind, call.query[_NAMES_QUERY])
        return ApiResponse(data={"value": list(names)})
    listing = context.backend.list(call.id(parent), kind, requested_page(call))
    token = listing.next.after if listing.next else None
    return page_response(call, [resource_json(context, resource) for resource in listing], token)


def delete(kind: Kind, context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Starts deleting a resource of a kind; 204 if it does not exist."""
    id = call.id(kind)
    if show_or_none(context.backend.show, id) is None:
        return ApiResponse(204)
    context.check_owner(call, id.key)
    return accepted_response(context, call, context.operations.start(DELETE, str(id)))


def update_cluster(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Updates a cluster's scale settings; as with the service, the response has the state before that."""
    id, patch = call.id(Kind.CLUSTER), ClusterPatch.from_wire(call.json())
    before = context.backend.show(id)
    context.check_owner(call, id.key)
    after = context.backend.update(id, patch)
    if isinstance(before, Cluster) and isinstance(after, Cluster):
        after = replace(
            after,
            allocation_state=before.allocation_state,
            allocation_changed=before.allocation_changed,
            node_states=before.node_states,
        )
    return resource_response(context, after)


def list_nodes(kind: Kind, context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Lists the nodes of a cluster or a job with their login addresses."""
    return ApiResponse(data={"value": [node.to_wire() for node in context.backend.nodes(call.id(kind))]})


def create_workspace(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Creates a workspace, or updates the tags of an existing one if any are given."""
    id = call.id(Kind.WORKSPACE)
    location = call.json().get("location")
    if not isinstance(location, str) or not location:
        message = "The location property is required for this definition."
        raise ApiError(400, "LocationRequired", message)
    spec = WorkspaceSpec.from_wire({"location": location, **call.json()})
    existing = show_or_none(context.backend.show, id)
    if isinstance(existing, Workspace) and spec.tags not in (None, existing.tags):
        return _set_tags(context, call, WorkspacePatch(tags=spec.tags or {}))
    return create(Kind.WORKSPACE, context, call)


def update_workspace(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Replaces the tags of a workspace."""
    body = call.json()
    patch = WorkspacePatch.from_wire({"tags": body.get("tags") or {}, **body})
    return _set_tags(context, call, patch)


def list_workspaces_in_group(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Lists the workspaces of a resource group."""
    listing = context.backend.list(
        _any_workspace(context, check_group_name(call.parts["group"])), Kind.WORKSPACE
    )
    return _workspace_page(context, call, listing)


def list_workspaces(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Lists the workspaces of the subscription."""
    groups = context.backend.groups
    names = [group.name for group in groups.list()] if groups else [context.group]
    scopes = (_any_workspace(context, name) for name in names)
    workspaces = [item for scope in scopes for item in context.backend.list(scope, Kind.WORKSPACE)]
    return _workspace_page(context, call, workspaces)


def _workspace_page(context: HandlerContext, call: ApiCall, workspaces: Sequence[Resource]) -> ApiResponse:
    """One page; its token is the creation time of its last workspace, in microseconds."""
    page = requested_page(call)
    ordered = sorted(workspaces, key=_creation_order)
    after = page_number(page)
    rest = [item for item in ordered if after is None or _creation_order(item)[0] > after]
    items = list(islice(rest, page.size))
    is_last = len(items) == len(rest)
    token = None if is_last else str(_creation_order(items[-1])[0])
    return page_response(call, [resource_json(context, item) for item in items], token)


def _creation_order(workspace: Resource) -> tuple[int, str]:
    return int(workspace.provisioning.created.timestamp() * 1e6), workspace.id.key


def _any_workspace(context: HandlerContext, group: str) -> ResourceId:
    return ResourceId(context.subscription, group, "any", Kind.WORKSPACE, "any")


def _set_tags(context: HandlerContext, call: ApiCall, patch: WorkspacePatch) -> ApiResponse:
    id = call.id(Kind.WORKSPACE)
    context.backend.show(id)
    context.check_owner(call, id.key)
    return resource_response(context, context.backend.update(id, patch))


_CRUD, _LOGIN = ("read", "write", "delete"), "listremotelogininformation/action"
_ACTIONS = {
    "workspaces": ("workspace", _CRUD),
    "workspaces/experiments": ("experiment", _CRUD),
    "workspaces/experiments/jobs": ("job", (*_CRUD, "terminate/action", "listoutputfiles/action", _LOGIN)),
    "workspaces/clusters": ("cluster", (*_CRUD, _LOGIN)),
    "workspaces/fileservers": ("file server", _CRUD),
    "locations/usages": ("usage", ("read",)),
}
# The name and the description of an action on a kind of resource.
_ACTION_TEXTS = {
    "read": ("List or get {}", "Lists {}s or gets the properties of a {}"),
    "write": ("Create or update {}", "Creates a new {} or updates an existing {}"),
    "delete": ("Delete {}", "Deletes a {}"),
    "terminate/action": ("Terminate {}", "Terminates a {}"),
    "listoutputfiles/action": ("List output files of {}", "Lists the output files of a {}"),
    _LOGIN: ("List remote login of {}", "Lists where the nodes of a {} are"),
}


def list_usages(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Lists the usage of each quota in a location."""
    usages = USAGES.of(context.backend).list(call.parts["location"])
    return ApiResponse(data={"value": [usage.to_wire() for usage in usages]})


def list_operations(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Lists the operations of the provider."""
    operations = [
        {
            "name": f"Microsoft.BatchAI/{path}/{action}",
            "display": {
                "provider": "Microsoft Batch AI",
                "resource": f"Batch AI {noun.title()}s",
                "operation": _ACTION_TEXTS[action][0].format(f"Batch AI {noun}"),
                "description": _ACTION_TEXTS[action][1].format(*[f"Batch AI {noun}"] * 2),
            },
            "origin": "user,system",
        }
        for path, (noun, actions) in _ACTIONS.items()
        for action in actions
    ]
    return ApiResponse(data={"value": operations})
