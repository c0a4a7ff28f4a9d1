"""Clusters: what changes of them, and where their nodes are logged in to."""

from __future__ import annotations

from batchai_magics.models.cluster import ClusterPatch
from batchai_magics.models.ids import Kind
from batchai_magics.server.batchai.shown import one
from batchai_magics.server.call import Answer, Call
from batchai_magics.server.service import Handler, Service


def update(service: Service, call: Call) -> Answer:
    """Changes a cluster's scale."""
    service.check_subscription(call)
    id, patch = call.id(Kind.CLUSTER), ClusterPatch.from_wire(call.json())
    service.backend.show(id)
    service.check_owner(call, id.key)
    return one(service, service.backend.update(id, patch))


def nodes(kind: Kind) -> Handler:
    """What lists the nodes of a cluster, or those that a job runs on."""

    def handle(service: Service, call: Call) -> Answer:
        service.check_subscription(call)
        return Answer(data={"value": [node.to_wire() for node in service.backend.nodes(call.id(kind))]})

    return handle
