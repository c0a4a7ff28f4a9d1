"""What a backend shows is the same after a journey over the wire, the fate of every rank with it."""

from __future__ import annotations

import json

import pytest

from batchai_magics.models.resource_ids import Kind
from tests.contract.place import HOLD, Place
from tests.world import until

pytestmark = pytest.mark.slow
SECOND_FAILS = 'test "$PMI_RANK" = 1 && exit 3; exec sleep 1000'


def sent(resource):
    """A resource as it arrives at the other end."""
    return type(resource).from_wire(json.loads(json.dumps(resource.to_wire())))


def test_every_resource_is_shown_alike_at_both_ends(place: Place) -> None:
    job = place.run()
    resources = [
        job,
        place.backend.show(place.workspace),
        place.backend.show(place.experiment),
        place.backend.show(place.cluster),
        *place.backend.list(place.workspace, Kind.CLUSTER),
    ]
    for resource in resources:
        assert sent(resource).to_wire() == resource.to_wire()
        assert sent(resource).id == resource.id


@pytest.mark.needs("file_servers")
def test_a_file_server_is_shown_alike_at_both_ends(place: Place) -> None:
    server = place.make_server()
    assert sent(server).to_wire() == server.to_wire()


def test_how_every_rank_ended_arrives_the_first_failure_first(place: Place) -> None:
    mpi = {"commandLine": SECOND_FAILS, "processCount": 2}
    job = place.run(customToolkitSettings=None, customMpiSettings=mpi)
    assert (job.ranks[0].rank, job.ranks[0].exit_code, sent(job).execution.exit_code) == (1, 3, 3)
    assert None not in job.to_wire()["properties"].values()
    assert sorted(exit.rank for exit in job.ranks) == [0, 1]
    assert [(exit.rank, exit.node, exit.exit_code) for exit in sent(job).ranks] == [
        (exit.rank, exit.node, exit.exit_code) for exit in job.ranks
    ]
    assert [bool(exit.ended) for exit in sent(job).ranks] == [bool(exit.ended) for exit in job.ranks]


def test_what_a_node_does_arrives(place: Place) -> None:
    job = place.start(HOLD)
    place.is_up(job)
    (node,) = place.backend.nodes(job)
    assert (sent(node).state, sent(node).job, sent(node).id) == (node.state, job, node.id)
    place.backend.terminate(job)
    until(lambda: place.backend.show(job).state.is_final)
