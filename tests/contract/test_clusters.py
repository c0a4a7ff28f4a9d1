"""Clusters: resized, scaled by their queue, asked for nodes, commands on nodes, preemption, quotas."""

from __future__ import annotations

import pytest

from batchai_magics.backends.base import CommandBytes, CommandEnd
from batchai_magics.errors import ConflictError, NotFoundError, SpecError
from batchai_magics.models.states import ExecutionState, NodeState
from tests.contract.place import HOLD, MOUNTED, Place, auto, manual
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("engine")]
hasty = pytest.mark.place_options(core_quota=20, idle_s=0.5)


@pytest.mark.sample
def test_a_cluster_grows_and_shrinks(place: Place) -> None:
    for count in (1, 3):
        place.scale(place.cluster, manual(count))
        place.has(place.cluster, idle=count)


@pytest.mark.sample
@pytest.mark.needs("new_nodes")
def test_a_new_cluster_is_resizing_and_then_steady_and_new_nodes_have_new_ids(place: Place) -> None:
    made = place.make_cluster(scale=manual(2))
    assert (made.allocation_state.value, made.node_states.idle_node_count) == ("resizing", 0)
    place.has(made.id, idle=2)
    assert place.backend.show(made.id).allocation_state.value == "steady"
    ids = {node.id for node in place.backend.nodes(made.id)}
    for count in (0, 3):
        place.scale(made.id, manual(count))
        place.has(made.id, idle=count)
    assert not ids & {node.id for node in place.backend.nodes(made.id)}


@pytest.mark.decided_by("service")
@pytest.mark.needs("node_images")
def test_the_image_of_the_nodes_is_shown_with_what_the_service_adds(place: Place) -> None:
    asked = {"publisher": "microsoft-ads", "offer": "linux", "sku": "x"}
    image = {"virtualMachineConfiguration": {"imageReference": asked}}
    versioned = {"virtualMachineConfiguration": {"imageReference": {**asked, "version": "1.2"}}}
    for name, fields, shown in (
        ("plain", {}, ("Canonical", "UbuntuServer", "16.04-LTS", "latest")),
        ("imaged", image, ("microsoft-ads", "linux", "x", "latest")),
        ("versioned", versioned, ("microsoft-ads", "linux", "x", "1.2")),
    ):
        made = place.make_cluster(name, scale=manual(0), **fields)
        assert made.allocation_state.value == "steady"  # there is no node to wait for
        wire = place.backend.show(made.id).spec.to_wire()["properties"]
        assert tuple(wire["virtualMachineConfiguration"]["imageReference"].values()) == shown
        assert place.make_cluster(name, scale=manual(0), **fields)  # the same again is the same


@pytest.mark.decided_by("service")
@pytest.mark.needs("setup_tasks")
def test_setup_output_on_no_mount_is_refused(place: Place) -> None:
    task = {"setupTask": {"commandLine": "true", "stdOutErrPathPrefix": "/var/log"}}
    with pytest.raises(SpecError, match=r"setupTask\.stdOutErrPathPrefix") as caught:
        place.make_cluster(nodeSetup=task)
    assert caught.value.message.startswith("the cluster description has one problem")
    with pytest.raises(NotFoundError):
        place.backend.show(place.cluster.workspace_id.child(place.cluster.kind, "more"))


def test_two_jobs_share_a_cluster_and_idle_nodes_go_before_running_ones(place: Place) -> None:
    stays, ends = jobs = [place.job("stays"), place.job("ends")]
    for job in jobs:  # the first has the first node
        place.is_up(place.start(HOLD, job.name))
    nodes = place.backend.nodes(place.cluster)
    assert [node.job for node in nodes] == jobs
    assert place.backend.nodes(ends) == [nodes[1]]
    place.backend.terminate(ends)
    place.has(place.cluster, running=1, idle=1)  # idle since later than the other one runs
    place.scale(place.cluster, manual(1))
    place.has(place.cluster, running=1)
    (node,) = place.backend.nodes(place.cluster)
    assert node.job == stays
    assert place.backend.show(stays).state is ExecutionState.RUNNING


# auto-scale


@hasty
@pytest.mark.needs("auto_scale")
def test_an_auto_scale_cluster_grows_for_its_queue_and_shrinks_again(place: Place) -> None:
    cluster = place.make_cluster(scale=auto(0, 3))
    assert place.counts(cluster.id) == (0, 0)
    assert place.run("echo ran", nodeCount=2, **place.on(cluster)).state is ExecutionState.SUCCEEDED
    place.has(cluster.id)


@hasty
@pytest.mark.needs("auto_scale")
def test_it_never_grows_over_its_maximum_nor_shrinks_under_its_minimum(place: Place) -> None:
    cluster = place.make_cluster(scale=auto(1, 2))
    with pytest.raises(SpecError, match=r"properties\.nodeCount"):
        place.start(nodeCount=3, **place.on(cluster))
    jobs = [place.start(HOLD, f"j{number}", **place.on(cluster)) for number in range(4)]
    place.has(cluster.id, running=2)
    assert [place.backend.show(job).state for job in jobs[2:]] == [ExecutionState.QUEUED] * 2
    for job in reversed(jobs):
        place.backend.terminate(job)
    place.has(cluster.id, idle=1)


@pytest.mark.place_options(idle_s=3600.0)
@pytest.mark.needs("auto_scale")
def test_a_node_that_was_not_idle_for_long_stays(place: Place) -> None:
    cluster = place.make_cluster(scale=auto(0, 2))
    place.run(**place.on(cluster))
    (node,) = place.backend.nodes(cluster.id)
    assert place.run(name="next", **place.on(cluster)).state is ExecutionState.SUCCEEDED
    assert [other.id for other in place.backend.nodes(cluster.id)] == [node.id]


@pytest.mark.sample
@hasty
@pytest.mark.needs("auto_scale")
def test_a_cluster_changes_between_manual_and_auto_scale(place: Place) -> None:
    cluster = place.make_cluster()
    changed = place.scale(cluster.id, auto(0, 4))
    assert changed.spec.scale_settings.manual is None
    place.has(cluster.id)
    assert place.scale(cluster.id, manual(2)).spec.scale_settings.auto_scale is None
    place.has(cluster.id, idle=2)


# jobs of nodes that leave


@pytest.mark.sample
@pytest.mark.needs("requeue")
def test_the_job_of_a_leaving_node_is_queued_again(place: Place) -> None:
    place.is_up(place.start(HOLD))
    place.scale(place.cluster, manual(0, "requeue"))
    until(lambda: place.backend.show(place.job()).state is ExecutionState.QUEUED)
    place.scale(place.cluster, manual(1))
    until(lambda: place.log(place.job()).count(b"up\n") == 2)
    is_begun_again(place, "its nodes left the cluster")


def is_begun_again(place: Place, reason: str) -> None:
    """The default job says, in its logs and in what is shown of it, that it runs again, and why."""
    job = place.backend.show(place.job())
    first, second = job.attempts
    assert (first.number, first.reason, second.number, second.reason) == (1, reason, 2, "")
    assert first.started <= first.ended <= second.started == job.execution.started
    assert [node.id for node in place.backend.nodes(job.id)] == [*second.nodes]
    sentence = f"attempt 2 begins on {', '.join(second.nodes)}: {reason}"
    assert place.log(job.id).decode().splitlines() == ["up", f"[batchai] {sentence}", "up"]
    logs = [file.name for file in place.backend.files(job.id) if file.name.startswith("execution")]
    assert any(sentence in place.log(job.id, name).decode() for name in logs)
    place.backend.terminate(job.id)
    assert place.wait(job.id).attempts == job.attempts


@pytest.mark.needs("node_deallocation")
def test_a_leaving_node_can_wait_for_its_job_or_end_it(place: Place) -> None:
    job = place.start(f"echo up; until [ -e {MOUNTED}/go ]; do sleep 0.02; done", nodeCount=2)
    place.is_up(job)
    place.scale(place.cluster, manual(0, "waitforjobcompletion"))
    until(lambda: place.backend.show(place.cluster).node_states.of(NodeState.LEAVING) == 2)
    assert place.backend.show(place.cluster).allocation_state.value == "resizing"
    place.backend.storage.upload(place.share, {"go": b""})
    assert place.wait(job).state is ExecutionState.SUCCEEDED
    until(lambda: place.backend.show(place.cluster).allocation_state.value == "steady")
    place.scale(place.cluster, manual(1))
    place.is_up(place.start(HOLD, "ended"))
    place.scale(place.cluster, manual(0, "terminate"))
    assert place.wait(place.job("ended")).state is ExecutionState.FAILED
    until(lambda: place.backend.show(place.cluster).node_states.total == 0)


@pytest.mark.sample
@pytest.mark.needs("preemption")
def test_a_preempted_node_is_replaced_and_its_job_starts_again(place: Place) -> None:
    cluster = place.make_cluster(vmPriority="lowpriority")
    place.is_up(place.start(HOLD, **place.on(cluster)))
    (node,) = place.backend.nodes(cluster.id)
    place.backend.preemption.preempt(cluster.id, node.id)
    until(lambda: place.log(place.job()).count(b"up\n") == 2)
    is_begun_again(place, f"its node {node.id} was preempted")
    assert node.id not in [other.id for other in place.backend.nodes(cluster.id)]
    elsewhere, _ = place.backend.nodes(place.cluster)
    for id in (node.id, elsewhere.id):
        with pytest.raises(NotFoundError, match="Cannot find a node"):
            place.backend.preemption.preempt(cluster.id, id)
    with pytest.raises(ConflictError, match="lowpriority"):  # a dedicated node is never taken away
        place.backend.preemption.preempt(place.cluster, elsewhere.id)


# commands on nodes


@pytest.mark.sample
@pytest.mark.needs("node_commands")
def test_command_runs_on_its_node_streams_output_and_ends_with_its_reader(
    place: Place,
) -> None:
    _, node = place.backend.nodes(place.cluster)
    commands = place.backend.node_commands
    command = f"echo up; until [ -e {MOUNTED}/go ]; do sleep 0.02; done; pwd; echo oh >&2; exit 3"
    output = commands.execute(place.cluster, node.id, command)
    assert next(output) == CommandBytes(b"up\n")
    place.backend.storage.upload(place.share, {"go": b""})
    *parts, end = output
    assert end == CommandEnd(3)
    assert CommandBytes(b"oh\n", is_error=True) in parts
    assert node.id in b"".join(part.data for part in parts).decode()
    with pytest.raises(NotFoundError, match="Cannot find a node with id=nope"):
        commands.execute(place.cluster, "nope", "true")
    job = place.start(HOLD)
    (beside,) = until(lambda: place.backend.nodes(job))
    assert beside.job == job
    output = commands.execute(job, beside.id, "trap '' TERM HUP; echo $$; sleep 1000; sleep 1000")
    pid = next(output).data.decode().strip()
    output.close()
    until_gone = f"while kill -0 {pid} 2>/dev/null; do sleep 0.05; done; kill -9 $$"
    assert list(commands.execute(place.cluster, beside.id, until_gone)) == [CommandEnd(137)]


# quotas


@pytest.mark.decided_by("service")
@pytest.mark.needs("own_quota")
@hasty
def test_the_core_quota_is_kept_and_usages_count_clusters_and_cores(place: Place) -> None:
    place.make_cluster(vmSize="STANDARD_NC6")  # 6 cores, beside the default cluster's 4
    found = {usage.name: (usage.current, usage.limit) for usage in place.backend.usages.list("eastus")}
    assert found["Clusters"] == (2, 20)
    assert found["Total Cluster Dedicated Regional vCPUs"] == (10, 20)
    assert found["Standard NC Family Cluster Dedicated vCPUs"] == (6, 20)
    assert found["Standard NC Family Cluster LowPriority vCPUs"] == (0, 20)
    with pytest.raises(ConflictError, match="exceeding quota") as caught:
        place.make_cluster("large", vmSize="STANDARD_D14")  # 16 cores
    assert caught.value.code == "OperationNotAllowed"
    cluster = place.make_cluster("small", vmSize="STANDARD_D2")  # 2 cores
    place.scale(cluster.id, manual(5))  # up to the last core
    with pytest.raises(ConflictError, match="quota"):
        place.scale(cluster.id, manual(6))
