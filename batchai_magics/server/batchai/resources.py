"""What every kind of resource can be asked: to be made, shown, listed, deleted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from batchai_magics.backends.base import Spec
from batchai_magics.errors import NotFoundError
from batchai_magics.models.cluster import ClusterSpec
from batchai_magics.models.file_server import FileServerSpec
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.job import JobSpec
from batchai_magics.models.resources import ExperimentSpec, Resource, WorkspaceSpec
from batchai_magics.server.batchai.links import accepted
from batchai_magics.server.batchai.paging import listed, page_of
from batchai_magics.server.batchai.shown import one, shown
from batchai_magics.server.call import Answer, Call
from batchai_magics.server.operations import DELETE
from batchai_magics.server.service import Handler, Service

_READ: Mapping[Kind, Callable[[Call], Spec]] = {
    Kind.WORKSPACE: lambda call: WorkspaceSpec.from_wire(call.json()),
    Kind.EXPERIMENT: lambda call: ExperimentSpec(),
    Kind.CLUSTER: lambda call: ClusterSpec.from_wire(call.json()),
    Kind.JOB: lambda call: JobSpec.from_wire(call.json()),
    Kind.FILE_SERVER: lambda call: FileServerSpec.from_wire(call.json()),
}
_NAMES = "batchainames"  # of a query of our own client: the names alone, those that begin so
_AT_ONCE = (Kind.WORKSPACE, Kind.EXPERIMENT)  # the service had made them when it answered


def create(kind: Kind) -> Handler:
    """What makes a resource of a kind, or gives the very same one that is there."""

    def handle(service: Service, call: Call) -> Answer:
        service.check_subscription(call)
        id, spec = call.id(kind), _READ[kind](call)
        existing = find(service, id)
        resource = made(service, call.user.name, id, spec, is_new=existing is None)
        if existing:
            return one(service, resource)
        if kind in _AT_ONCE or call.wants_what_is_made:
            return one(service, resource)
        return accepted(service, call, service.operations.done(id))

    return handle


def made(service: Service, owner: str, id: ResourceId, spec: Spec, *, is_new: bool) -> Resource:
    """The resource, which the backend creates together with its owner if it records owners."""
    if service.backend.ownership or not is_new:
        return service.backend.create(id, spec, owner=owner)
    with service.owners.creating(id.key, owner):
        return service.backend.create(id, spec)


def show(kind: Kind) -> Handler:
    """What shows a resource of a kind."""

    def handle(service: Service, call: Call) -> Answer:
        service.check_subscription(call)
        return one(service, service.backend.show(call.id(kind)))

    return handle


def list_in(parent: Kind, kind: Kind) -> Handler:
    """What lists the resources of a kind that are in a workspace or an experiment, oldest first."""

    def handle(service: Service, call: Call) -> Answer:
        service.check_subscription(call)
        if _NAMES in call.query:
            names = service.backend.names(call.id(parent), kind, call.query[_NAMES])
            return Answer(data={"value": list(names)})
        listing = service.backend.list(call.id(parent), kind, page_of(call))
        token = listing.next.after if listing.next else None
        return listed(call, [shown(service, resource) for resource in listing], token)

    return handle


def delete(kind: Kind) -> Handler:
    """What begins to delete a resource of a kind; 204 for one that is not there."""

    def handle(service: Service, call: Call) -> Answer:
        service.check_subscription(call)
        id = call.id(kind)
        if find(service, id) is None:
            return Answer(204)
        service.check_owner(call, id.key)
        operation = service.operations.begin(DELETE, str(id), partial(service.owners.forget, id.key))
        return accepted(service, call, operation)

    return handle


def find(service: Service, id: ResourceId) -> Resource | None:
    """The resource, or None."""
    try:
        return service.backend.show(id)
    except NotFoundError:
        return None
