"""What is told of jobs and clusters of a real Slurm: why they wait, where they are, who ended them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.commands.output.command_result import Result
from batchai_magics.commands.output.shell_output import print_text
from batchai_magics.models.states import NodeState
from tests.backends.slurm.job_files import first_error
from tests.backends.slurm.real_slurm import RealSlurm
from tests.contract.place import Place, PlaceOptions
from tests.contract.places import place_on
from tests.world import until

pytestmark = pytest.mark.slow


@pytest.fixture
def any_place(own_slurm: RealSlurm, tmp_path: Path) -> Iterator[Place]:
    """A place on it whose jobs may run on any node."""
    with place_on(own_slurm, tmp_path, PlaceOptions(), placement="any") as place:
        yield place


def test_cluster_of_any_nodes_counts_unavailable_ones(any_place, own_slurm):
    own_slurm.ask("scontrol", "update", "nodename=node2", "state=drain", "reason=new disks")
    until(lambda: any_place.backend.show(any_place.cluster).node_states.unusable_node_count == 1)
    cluster = any_place.backend.show(any_place.cluster)
    assert cluster.node_states.idle_node_count == 1
    (error,) = cluster.errors
    assert "drained: new disks" in error.message
    print_text(Result(cluster), stream := io.StringIO())
    assert "NodeUnusable (node2): Slurm says drained: new disks" in stream.getvalue()
    assert [detail.value for detail in error.details] == ["node2"]
    states = {node.id: node.state for node in any_place.backend.nodes(any_place.cluster)}
    assert states == {"node1": NodeState.IDLE, "node2": NodeState.UNUSABLE}


@pytest.mark.parametrize("is_first", [True, False])
def test_a_job_that_has_lost_a_node_names_it(any_place, own_slurm, is_first):
    id = any_place.start_ranks("echo up; exec sleep 1000", count=2)
    until(lambda: any_place.log(id).count(b"up") == 2)
    first, second = (node.id for node in any_place.backend.nodes(id))
    lost = first if is_first else second
    own_slurm.kill(lost)
    error = first_error(any_place.wait(id))
    assert (error.code, "A node of the job was lost: node" in error.message) == ("JobNodeLost", True)
    assert [detail.value for detail in error.details if detail.name == "NodeId"] == [lost]


@pytest.mark.parametrize("own_slurm", [{"more": "\nProlog=/bin/false"}], indirect=True)
def test_job_that_slurmd_cannot_launch_is_not_shown_as_cancelled(any_place, own_slurm):
    job = any_place.run()
    error = first_error(job)
    assert error.code == "JobLaunchFailed"
    assert "administrator" not in error.message
    assert "could not start the job on node" in error.message
    assert "Prolog error" in error.message
    assert not job.is_cancelled
