"""A cell that wants more nodes than its cluster has."""

import pytest

from batchai_magics import cell
from batchai_magics.errors import BatchAIError
from batchai_magics.jobs.submit import submit
from batchai_magics.models.resources import Cluster
from tests.patience import PATIENCE_S
from tests.world import World, world

pytestmark = pytest.mark.slow

__all__ = ["world"]


def test_a_cluster_grows_for_a_job_that_asks_it_to(world: World) -> None:
    with pytest.raises(BatchAIError, match="add --grow, or"):
        world.submit("big --nodes 3")
    request = cell.parse("big --nodes 3 --grow", "print(1)", settings=world.settings)
    made = submit(world.backend, request, world.settings)
    assert made.note == "Resizing cluster default to 3 nodes."
    assert made.job.wait(PATIENCE_S).exit_code == 0
    again = cell.parse("small --grow", "print(1)", settings=world.settings)
    assert submit(world.backend, again, world.settings).note == ""
    cluster = world.backend.show(world.cluster)
    assert isinstance(cluster, Cluster)
    assert cluster.spec.scale_settings.manual.target_node_count == 3
