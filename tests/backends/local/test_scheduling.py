"""Who gets nodes when: whole gangs, priority first, then first come, first served; and how nodes leave."""

from __future__ import annotations

import pytest

from batchai_magics.backends.base import ShareFile
from batchai_magics.models.cluster import ClusterPatch, NodeState
from batchai_magics.models.ids import Kind
from batchai_magics.models.job import ExecutionState
from tests.world import World, until

pytestmark = pytest.mark.slow

HOLD = "import time\nprint('up', flush=True)\ntime.sleep(1000)"
NOTE = "import os; open(os.environ['AZ_BATCHAI_MOUNT_ROOT'] + '/autoafs/order', 'a').write({name!r} + ' ')"


def order(world: World) -> list[str]:
    if ShareFile not in {type(f) for f in world.backend.storage.list("batchaishare") if f.path == "order"}:
        return []
    return world.backend.storage.download("batchaishare", "order").decode().split()


def resize(world: World, count: int, option: str = "requeue"):
    scale = {"manual": {"targetNodeCount": count, "nodeDeallocationOption": option}}
    return world.backend.update(
        world.cluster, ClusterPatch.from_wire({"properties": {"scaleSettings": scale}})
    )


def test_jobs_of_one_priority_start_in_the_order_of_submission(world: World) -> None:
    first = world.submit("first --nodes 2", HOLD)
    jobs = [world.submit(f"{name} --nodes 2 --processes 1", NOTE.format(name=name)) for name in "abc"]
    first.cancel()
    for job in jobs:
        job.wait(60)
    assert order(world) == ["a", "b", "c"]


def test_a_higher_priority_goes_first(world: World) -> None:
    first = world.submit("first --nodes 2", HOLD)
    jobs = [
        world.submit(f"{name} --nodes 2 --processes 1 --priority {name}", NOTE.format(name=name))
        for name in ("low", "normal", "high")
    ]
    first.cancel()
    for job in jobs:
        job.wait(60)
    assert order(world) == ["high", "normal", "low"]


def test_a_job_waits_until_all_its_nodes_are_idle(world: World) -> None:
    one = world.submit("one", HOLD)
    until(lambda: one.log() == "up\n")
    two = world.submit("two --nodes 2", HOLD)
    assert two.state is ExecutionState.QUEUED
    assert world.backend.show(world.cluster).node_states.idle_node_count == 1
    one.cancel()
    until(lambda: two.state is ExecutionState.RUNNING)


def test_two_jobs_share_a_cluster(world: World) -> None:
    jobs = [world.submit(name, HOLD) for name in "ab"]
    until(lambda: all(job.log() == "up\n" for job in jobs))
    nodes = world.backend.nodes(world.cluster)
    assert [node.job.name for node in nodes] == ["a", "b"]
    assert world.backend.nodes(jobs[1].id) == [nodes[1]]


def test_a_queued_job_can_be_terminated(world: World) -> None:
    world.submit("first --nodes 2", HOLD)
    waiting = world.submit("waiting")
    waiting.cancel()
    info = waiting.show().execution
    assert (waiting.state, info.started) == (ExecutionState.FAILED, info.ended)


def test_a_resized_cluster_requeues_the_job_of_a_leaving_node(world: World) -> None:
    job = world.submit("j --nodes 2", HOLD)
    until(lambda: job.log() == "up\nup\n")
    resize(world, 1, "requeue")
    until(lambda: job.state is ExecutionState.QUEUED)
    resize(world, 2)
    until(lambda: job.log() == "up\n" * 4)


def test_a_resized_cluster_can_end_the_job_of_a_leaving_node(world: World) -> None:
    job = world.submit("j --nodes 2", HOLD)
    until(lambda: job.log() == "up\nup\n")
    resize(world, 0, "terminate")
    assert job.wait(20).state is ExecutionState.FAILED
    until(lambda: world.backend.show(world.cluster).node_states.total == 0)


def test_a_leaving_node_can_wait_for_its_job(world: World) -> None:
    job = world.submit("j --nodes 2", "import time; time.sleep(1); print('done')")
    cluster = resize(world, 0, "waitforjobcompletion")
    assert cluster.node_states.of(NodeState.LEAVING) == 2
    assert cluster.allocation_state.value == "resizing"
    assert job.wait(20).log() == "done\ndone\n"
    assert world.backend.show(world.cluster).allocation_state.value == "steady"


def test_a_job_of_a_deleted_cluster_ends_with_the_reason(world: World) -> None:
    running = world.submit("running --nodes 2", HOLD)
    waiting = world.submit("waiting")
    until(lambda: running.log() == "up\nup\n")
    world.backend.delete(world.cluster)
    assert "was deleted" in waiting.wait(20).show().execution.errors[0].message
    assert "was deleted" in running.wait(20).show().execution.errors[0].message


def test_an_empty_cluster_keeps_jobs_until_it_grows(world: World) -> None:
    resize(world, 0)
    job = world.submit("j --nodes 2 --processes 2", "print('ran')")
    assert job.state is ExecutionState.QUEUED
    resize(world, 2)
    assert job.wait(20).log() == "ran\nran\n"


def test_deleting_the_workspace_ends_and_forgets_everything(world: World) -> None:
    world.submit("j --nodes 2", HOLD)
    world.backend.delete(world.workspace)
    with world.backend.store.read() as db:
        left = [db.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in ("resource", "job", "node")]
    assert left == [0, 0, 0]
    from batchai_magics.jobs.submit import ensure_defaults

    ensure_defaults(world.backend, world.settings)
    assert not world.backend.list(world.experiment, Kind.JOB)
