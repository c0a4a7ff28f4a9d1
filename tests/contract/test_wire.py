"""What a backend shows is the same after a journey over the wire, the fate of every rank with it."""

from __future__ import annotations

import json

import pytest

from batchai_magics.models.resource_ids import Kind
from tests.contract.place import HOLD, Place

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("service")]


def sent(resource):
    """A resource as it arrives at the other end."""
    return type(resource).from_wire(json.loads(json.dumps(resource.to_wire())))


def test_every_resource_is_shown_alike_at_both_ends(place: Place) -> None:
    job = place.start(HOLD)
    place.is_up(job)
    (node,) = place.backend.nodes(job)
    assert (sent(node).state, sent(node).job, sent(node).id) == (node.state, job, node.id)
    place.backend.terminate(job)
    resources = [
        place.wait(job),
        place.backend.show(place.workspace),
        place.backend.show(place.experiment),
        place.backend.show(place.cluster),
        *place.backend.list(place.workspace, Kind.CLUSTER),
    ]
    if place.backend.capabilities.file_servers:
        resources.append(place.make_server())
    for resource in resources:
        assert sent(resource).to_wire() == resource.to_wire()
        assert sent(resource).id == resource.id
