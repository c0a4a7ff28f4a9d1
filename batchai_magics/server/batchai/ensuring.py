"""What a new job needs, created in one request of our own client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from batchai_magics.backends.base import STORAGE, JobNeeds, Spec
from batchai_magics.backends.base.ensuring import missing, unless_there
from batchai_magics.models.cluster import ClusterSpec
from batchai_magics.models.ids import Kind, ResourceId, check_name, check_share_name
from batchai_magics.models.resources import ExperimentSpec, WorkspaceSpec
from batchai_magics.server.batchai import resources
from batchai_magics.server.batchai.body_fields import text
from batchai_magics.server.batchai.shown import shown
from batchai_magics.server.call import Answer, Call
from batchai_magics.server.errors import refusal
from batchai_magics.server.service import Service

MOST_RESOURCES = 10
_MODELS: Mapping[Kind, type[WorkspaceSpec | ExperimentSpec | ClusterSpec]] = {
    Kind.WORKSPACE: WorkspaceSpec,
    Kind.EXPERIMENT: ExperimentSpec,
    Kind.CLUSTER: ClusterSpec,
}


def ensure(service: Service, call: Call) -> Answer:
    """Creates missing `resources` (each an `id` and a `body`) and a `share`; gives the runs of a `job`."""
    service.check_subscription(call)
    body = call.json()
    job = _id(service, text(body, "job"))
    needs = JobNeeds(job, tuple(_resources(service, body)))
    share = text(body, "share") if body.get("share") else ""
    if share:
        check_share_name(share.rpartition("/")[2])
    for id, spec in missing(service.backend, needs):
        with unless_there(service.backend, id):
            resources.made(service, call.user.name, id, spec, is_new=True)
    if share:
        STORAGE.of(service.backend).make(share)
    runs = service.backend.ensure(JobNeeds(job))
    return Answer(data={"value": [shown(service, run) for run in runs]})


def _resources(service: Service, body: Mapping[str, Any]) -> Iterator[tuple[ResourceId, Spec]]:
    listed = body.get("resources", [])
    if not isinstance(listed, list) or len(listed) > MOST_RESOURCES:
        message = f"resources must be a list of at most {MOST_RESOURCES} objects."
        raise refusal(400, "InvalidRequestContent", message)
    for item in listed:
        if not isinstance(item, Mapping) or not isinstance(item.get("body"), Mapping):
            raise refusal(400, "InvalidRequestContent", "Each of resources must have an id and a body.")
        id = _id(service, text(item, "id"))
        if id.kind not in _MODELS:
            message = f"{id} is no workspace, experiment or cluster."
            raise refusal(400, "InvalidRequestContent", message)
        yield id, _MODELS[id.kind].from_wire(item["body"])


def _id(service: Service, value: str) -> ResourceId:
    """The id of a resource of this server's subscription."""
    id = ResourceId.parse(value)
    if id.subscription.lower() != service.subscription.lower():
        message = f"The subscription '{id.subscription}' could not be found."
        raise refusal(404, "SubscriptionNotFound", message)
    check_name(id.name, id.kind)
    return id
