"""Handlers that create, show, list, update and delete resources of the Batch AI API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from batchai_magics.backends.base import Spec
from batchai_magics.errors import NotFoundError
from batchai_magics.models.cluster_spec import ClusterPatch, ClusterSpec
from batchai_magics.models.file_server import FileServerSpec
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId, check_group_name
from batchai_magics.models.resources import ExperimentSpec, Resource, Workspace, WorkspacePatch, WorkspaceSpec
from batchai_magics.server.api_call import ApiCall, ApiResponse
from batchai_magics.server.api_errors import ApiError
from batchai_magics.server.batchai.batchai_responses import (
    accepted_response,
    check_skip_token,
    page_response,
    requested_page,
    resource_json,
    resource_response,
)
from batchai_magics.server.operations import DELETE
from batchai_magics.server.service import Handler, Service

_SPEC_PARSERS: Mapping[Kind, Callable[[ApiCall], Spec]] = {
    Kind.WORKSPACE: lambda call: WorkspaceSpec.from_wire(call.json()),
    Kind.EXPERIMENT: lambda call: ExperimentSpec(),
    Kind.CLUSTER: lambda call: ClusterSpec.from_wire(call.json()),
    Kind.JOB: lambda call: JobSpec.from_wire(call.json()),
    Kind.FILE_SERVER: lambda call: FileServerSpec.from_wire(call.json()),
}
_NAMES_QUERY = "batchainames"  # query parameter of our own client: list only names, with this prefix
_SYNCHRONOUS = (Kind.WORKSPACE, Kind.EXPERIMENT)  # the service created these before responding


def create(kind: Kind) -> Handler:
    """The handler that creates a resource of a kind, or returns an identical existing one."""

    def handle(service: Service, call: ApiCall) -> ApiResponse:
        service.check_subscription(call)
        id, spec = call.id(kind), _SPEC_PARSERS[kind](call)
        existing = find_resource(service, id)
        resource = create_owned(service, call.user.name, id, spec, is_new=existing is None)
        if existing:
            return resource_response(service, resource)
        if kind in _SYNCHRONOUS or call.prefers_resource:
            return resource_response(service, resource)
        return accepted_response(service, call, service.operations.record_completed(id))

    return handle


def create_owned(service: Service, owner: str, id: ResourceId, spec: Spec, *, is_new: bool) -> Resource:
    """Creates a resource and records its owner, in the backend if it supports that."""
    if service.backend.ownership or not is_new:
        return service.backend.create(id, spec, owner=owner)
    with service.owners.record_creation(id.key, owner):
        return service.backend.create(id, spec)


def show(kind: Kind) -> Handler:
    """The handler that shows a resource of a kind."""

    def handle(service: Service, call: ApiCall) -> ApiResponse:
        service.check_subscription(call)
        return resource_response(service, service.backend.show(call.id(kind)))

    return handle


def list_in(parent: Kind, kind: Kind) -> Handler:
    """The handler that lists the resources of a kind in a workspace or experiment, oldest first."""

    def handle(service: Service, call: ApiCall) -> ApiResponse:
        service.check_subscription(call)
        if _NAMES_QUERY in call.query:
            names = service.backend.names(call.id(parent), kind, call.query[_NAMES_QUERY])
            return ApiResponse(data={"value": list(names)})
        listing = service.backend.list(call.id(parent), kind, requested_page(call))
        token = listing.next.after if listing.next else None
        return page_response(call, [resource_json(service, resource) for resource in listing], token)

    return handle


def delete(kind: Kind) -> Handler:
    """The handler that starts deleting a resource of a kind; 204 if it does not exist."""

    def handle(service: Service, call: ApiCall) -> ApiResponse:
        service.check_subscription(call)
        id = call.id(kind)
        if find_resource(service, id) is None:
            return ApiResponse(204)
        service.check_owner(call, id.key)
        operation = service.operations.start(DELETE, str(id), partial(service.owners.forget, id.key))
        return accepted_response(service, call, operation)

    return handle


def find_resource(service: Service, id: ResourceId) -> Resource | None:
    """The resource, or None."""
    try:
        return service.backend.show(id)
    except NotFoundError:
        return None


def update_cluster(service: Service, call: ApiCall) -> ApiResponse:
    """Updates a cluster's scale settings."""
    service.check_subscription(call)
    id, patch = call.id(Kind.CLUSTER), ClusterPatch.from_wire(call.json())
    service.backend.show(id)
    service.check_owner(call, id.key)
    return resource_response(service, service.backend.update(id, patch))


def list_nodes(kind: Kind) -> Handler:
    """The handler that lists the nodes of a cluster or a job with their login addresses."""

    def handle(service: Service, call: ApiCall) -> ApiResponse:
        service.check_subscription(call)
        return ApiResponse(data={"value": [node.to_wire() for node in service.backend.nodes(call.id(kind))]})

    return handle


_create_or_get = create(Kind.WORKSPACE)


def create_workspace(service: Service, call: ApiCall) -> ApiResponse:
    """Creates a workspace, or updates the tags of an existing one if any are given."""
    service.check_subscription(call)
    id = call.id(Kind.WORKSPACE)
    spec = WorkspaceSpec.from_wire({"location": _location(call), **call.json()})
    existing = find_resource(service, id)
    if isinstance(existing, Workspace) and spec.tags not in (None, existing.tags):
        return _set_tags(service, call, WorkspacePatch(tags=spec.tags or {}))
    return _create_or_get(service, call)


def update_workspace(service: Service, call: ApiCall) -> ApiResponse:
    """Replaces the tags of a workspace."""
    service.check_subscription(call)
    body = call.json()
    patch = WorkspacePatch.from_wire({"tags": body.get("tags") or {}, **body})
    return _set_tags(service, call, patch)


def list_workspaces_in_group(service: Service, call: ApiCall) -> ApiResponse:
    """Lists the workspaces of a resource group."""
    service.check_subscription(call)
    listing = service.backend.list(
        _any_workspace(service, check_group_name(call.parts["group"])), Kind.WORKSPACE
    )
    return _workspace_page(service, call, listing)


def list_workspaces(service: Service, call: ApiCall) -> ApiResponse:
    """Lists the workspaces of the subscription."""
    service.check_subscription(call)
    return _workspace_page(service, call, list(_all_workspaces(service)))


def _workspace_page(service: Service, call: ApiCall, workspaces: Sequence[Resource]) -> ApiResponse:
    """One page; its token is the creation time of its last workspace, in microseconds."""
    page = requested_page(call)
    ordered = sorted(workspaces, key=_creation_order)
    rest = [item for item in ordered if _creation_order(item)[0] > int(check_skip_token(page.after) or -1)]
    chosen = list(islice(rest, page.size))
    is_last = len(chosen) == len(rest)
    token = None if is_last else str(_creation_order(chosen[-1])[0])
    return page_response(call, [resource_json(service, item) for item in chosen], token)


def _creation_order(workspace: Resource) -> tuple[int, str]:
    return int(workspace.provisioning.created.timestamp() * 1e6), workspace.id.key


def _all_workspaces(service: Service) -> Iterator[Resource]:
    groups = service.backend.groups
    names = [group.name for group in groups.list()] if groups else [service.group]
    for name in names:
        yield from service.backend.list(_any_workspace(service, name), Kind.WORKSPACE)


def _any_workspace(service: Service, group: str) -> ResourceId:
    return ResourceId(service.subscription, group, "any", Kind.WORKSPACE, "any")


def _set_tags(service: Service, call: ApiCall, patch: WorkspacePatch) -> ApiResponse:
    id = call.id(Kind.WORKSPACE)
    service.backend.show(id)
    service.check_owner(call, id.key)
    return resource_response(service, service.backend.update(id, patch))


def _location(call: ApiCall) -> str:
    location = call.json().get("location")
    if not isinstance(location, str) or not location:
        message = "The location property is required for this definition."
        raise ApiError(400, "LocationRequired", message)
    return location
