"""Workspaces: their tags, and the list of all in a subscription."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from batchai_magics.models.ids import Kind, ResourceId, check_group_name
from batchai_magics.models.resources import Resource, Workspace, WorkspacePatch, WorkspaceSpec
from batchai_magics.server.batchai import resources
from batchai_magics.server.batchai.paging import check_token, listed, page_of
from batchai_magics.server.batchai.shown import one, shown
from batchai_magics.server.call import Answer, Call
from batchai_magics.server.errors import refusal
from batchai_magics.server.service import Service

_create = resources.create(Kind.WORKSPACE)


def create(service: Service, call: Call) -> Answer:
    """Makes a workspace; gives the one that is there other tags, if any are said."""
    service.check_subscription(call)
    id = call.id(Kind.WORKSPACE)
    spec = WorkspaceSpec.from_wire({"location": _location(call), **call.json()})
    existing = resources.find(service, id)
    if isinstance(existing, Workspace) and spec.tags not in (None, existing.tags):
        return _tag(service, call, WorkspacePatch(tags=spec.tags or {}))
    return _create(service, call)


def update(service: Service, call: Call) -> Answer:
    """Gives a workspace other tags."""
    service.check_subscription(call)
    body = call.json()
    patch = WorkspacePatch.from_wire({"tags": body.get("tags") or {}, **body})
    return _tag(service, call, patch)


def list_in_group(service: Service, call: Call) -> Answer:
    """The workspaces of a resource group."""
    service.check_subscription(call)
    listing = service.backend.list(_any_in(service, check_group_name(call.parts["group"])), Kind.WORKSPACE)
    return _page(service, call, listing)


def list_all(service: Service, call: Call) -> Answer:
    """The workspaces of the subscription, group by group."""
    service.check_subscription(call)
    return _page(service, call, list(_all(service)))


def _page(service: Service, call: Call, workspaces: Sequence[Resource]) -> Answer:
    """A page of them; its token is the moment when its last one was made, in microseconds."""
    page = page_of(call)
    ordered = sorted(workspaces, key=_order)
    rest = [item for item in ordered if _order(item)[0] > int(check_token(page.after) or -1)]
    chosen = list(islice(rest, page.size))
    is_last = len(chosen) == len(rest)
    token = None if is_last else str(_order(chosen[-1])[0])
    return listed(call, [shown(service, item) for item in chosen], token)


def _order(workspace: Resource) -> tuple[int, str]:
    return int(workspace.provisioning.created.timestamp() * 1e6), workspace.id.key


def _all(service: Service) -> Iterator[Resource]:
    groups = service.backend.groups
    names = [group.name for group in groups.list()] if groups else [service.group]
    for name in names:
        yield from service.backend.list(_any_in(service, name), Kind.WORKSPACE)


def _any_in(service: Service, group: str) -> ResourceId:
    return ResourceId(service.subscription, group, "any", Kind.WORKSPACE, "any")


def _tag(service: Service, call: Call, patch: WorkspacePatch) -> Answer:
    id = call.id(Kind.WORKSPACE)
    service.backend.show(id)
    service.check_owner(call, id.key)
    return one(service, service.backend.update(id, patch))


def _location(call: Call) -> str:
    location = call.json().get("location")
    if not isinstance(location, str) or not location:
        message = "The location property is required for this definition."
        raise refusal(400, "LocationRequired", message)
    return location
