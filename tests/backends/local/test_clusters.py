"""Clusters that change by themselves: auto-scale, setup tasks, preemption, quotas, file servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.local.cluster_rows import Limits
from batchai_magics.errors import ConflictError, NotFoundError, ServiceError, SpecError
from batchai_magics.models.cluster import ClusterPatch, ClusterSpec
from batchai_magics.models.file_server import FileServerSpec
from batchai_magics.models.ids import Kind
from batchai_magics.models.job import ExecutionState
from batchai_magics.models.resources import Cluster
from tests.world import World, until

pytestmark = pytest.mark.slow

HOLD = "import time\nprint('up', flush=True)\ntime.sleep(1000)"
USER = {"adminUserName": "me", "adminUserPassword": "hush"}


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[World]:
    """A world whose auto-scale clusters shrink after half a second, with a quota of 20 cores."""
    made = World(tmp_path / "hasty", limits=Limits(core_quota=20, idle_s=0.5))
    yield made
    made.close()


def make(
    world: World, name: str = "c", *, scale: dict[str, object] | None = None, **fields: object
) -> Cluster:
    manual = {"manual": {"targetNodeCount": 1}}
    properties = {"vmSize": "STANDARD_D1", "userAccountSettings": USER, "scaleSettings": scale or manual}
    spec = ClusterSpec.from_wire({"properties": {**properties, **fields}})
    return world.backend.create(world.workspace.child(Kind.CLUSTER, name), spec)


def auto(least: int, most: int) -> dict[str, object]:
    return {"autoScale": {"minimumNodeCount": least, "maximumNodeCount": most}}


def counts(world: World, cluster: Cluster) -> tuple[int, int]:
    states = world.backend.show(cluster.id).node_states
    return states.running_node_count, states.idle_node_count


# -- auto-scale ----------------------------------------------------------------


def test_an_auto_scale_cluster_grows_for_its_queue_and_shrinks_again(hasty: World) -> None:
    cluster = make(hasty, scale=auto(0, 3))
    assert counts(hasty, cluster) == (0, 0)
    job = hasty.run("j --cluster c --nodes 2 --processes 2", "print('ran')")
    assert job.log() == "ran\nran\n"
    until(lambda: counts(hasty, cluster) == (0, 0))


def test_it_never_grows_over_its_maximum_nor_shrinks_under_its_minimum(hasty: World) -> None:
    cluster = make(hasty, scale=auto(1, 2))
    jobs = [hasty.submit(f"j{i} --cluster c", HOLD) for i in range(4)]
    until(lambda: counts(hasty, cluster) == (2, 0))
    assert [job.state for job in jobs[2:]] == [ExecutionState.QUEUED] * 2
    for job in reversed(jobs):
        job.cancel()
    until(lambda: counts(hasty, cluster) == (0, 1))


def test_a_job_larger_than_the_maximum_is_refused(hasty: World) -> None:
    make(hasty, scale=auto(0, 2))
    with pytest.raises(SpecError, match=r"properties\.nodeCount"):
        hasty.submit("j --cluster c --nodes 3")


def test_a_cluster_changes_between_manual_and_auto_scale(hasty: World) -> None:
    cluster = make(hasty)
    patch = ClusterPatch.from_wire({"properties": {"scaleSettings": auto(0, 4)}})
    changed = hasty.backend.update(cluster.id, patch)
    assert changed.spec.scale_settings.manual is None
    until(lambda: counts(hasty, cluster) == (0, 0))
    manual = {"scaleSettings": {"manual": {"targetNodeCount": 2}}}
    hasty.backend.update(cluster.id, ClusterPatch.from_wire({"properties": manual}))
    assert counts(hasty, cluster) == (0, 2)


# -- setup tasks ---------------------------------------------------------------


def setup(command: str, **fields: object) -> dict[str, object]:
    prefix = "$AZ_BATCHAI_MOUNT_ROOT/autoafs"
    return {"setupTask": {"commandLine": command, "stdOutErrPathPrefix": prefix, **fields}}


def test_a_setup_task_runs_on_every_node_before_it_takes_jobs(world: World) -> None:
    two = {"manual": {"targetNodeCount": 2}}
    command = "sleep 0.5; echo set up by $WHO > ../../setup-$RANDOM$RANDOM; echo done"
    variables = [{"name": "WHO", "value": "me"}]
    cluster = make(world, scale=two, nodeSetup=setup(command, environmentVariables=variables))
    assert cluster.node_states.preparing_node_count == 2
    assert cluster.allocation_state.value == "resizing"
    until(lambda: counts(world, cluster) == (0, 2))
    files = [file.name for file in world.backend.setup_files(cluster.id)]
    nodes = [node.id for node in world.backend.nodes(cluster.id)]
    assert files == sorted(f"{stream}-{node}.txt" for stream in ("stdout", "stderr") for node in nodes)


def test_a_job_waits_for_the_setup_of_its_node(world: World) -> None:
    make(world, nodeSetup=setup("sleep 0.5; echo x > $AZ_BATCHAI_MOUNT_ROOT/autoafs/ready"))
    code = "import os; print(os.path.exists(os.environ['AZ_BATCHAI_MOUNT_ROOT'] + '/autoafs/ready'))"
    assert world.run("j --cluster c", code).log() == "True\n"


def test_a_failed_setup_task_makes_the_node_unusable_with_the_reason(world: World) -> None:
    cluster = make(world, nodeSetup=setup("echo broken >&2; exit 4"))
    until(lambda: world.backend.show(cluster.id).node_states.unusable_node_count == 1)
    (error,) = world.backend.show(cluster.id).errors
    assert error.code == "NodeSetupFailed"
    assert "exit code 4" in error.message


def test_a_setup_task_gets_its_secrets_and_no_file_does(world: World) -> None:
    secrets = [{"name": "TOKEN", "value": "hush-hush"}]
    cluster = make(world, nodeSetup=setup("test ${#TOKEN} -eq 9", secrets=secrets))
    until(lambda: counts(world, cluster) == (0, 1))
    for path in world.settings.home.rglob("*"):
        assert not path.is_file() or b"hush-hush" not in path.read_bytes(), path


def test_a_killed_setup_task_makes_the_node_unusable(world: World) -> None:
    cluster = make(world, nodeSetup=setup("sleep 1000"))
    (node,) = world.backend.nodes(cluster.id)
    from batchai_magics.backends.local import process

    until(lambda: process.marked(node.id))
    with world.backend.store.read() as db:
        (name,) = db.execute("SELECT preparer FROM node WHERE id = ?", (node.id,)).fetchone()
    import os
    import signal

    os.kill(process.pid_of(name), signal.SIGKILL)
    until(lambda: world.backend.show(cluster.id).node_states.unusable_node_count == 1)
    until(lambda: not process.marked(node.id))


def test_setup_output_on_no_mount_is_refused(world: World) -> None:
    with pytest.raises(SpecError, match=r"setupTask\.stdOutErrPathPrefix"):
        make(world, nodeSetup=setup("true", stdOutErrPathPrefix="/var/log"))
    with pytest.raises(NotFoundError):
        world.backend.show(world.workspace.child(Kind.CLUSTER, "c"))


def test_files_of_a_cluster_without_setup_are_said_not_to_be(world: World) -> None:
    with pytest.raises(ServiceError, match="startup task"):
        world.backend.setup_files(make(world).id)


# -- preemption, commands, quotas, servers -------------------------------------


def test_a_preempted_node_is_replaced_and_its_job_starts_again(world: World) -> None:
    cluster = make(world, vmPriority="lowpriority")
    job = world.submit("j --cluster c", HOLD)
    until(lambda: job.log() == "up\n")
    (node,) = world.backend.nodes(cluster.id)
    world.backend.preempt(cluster.id, node.id)
    until(lambda: job.log() == "up\nup\n")
    assert node.id not in [other.id for other in world.backend.nodes(cluster.id)]


def test_a_dedicated_node_is_never_taken_away(world: World) -> None:
    cluster = make(world)
    with pytest.raises(ConflictError, match="lowpriority"):
        world.backend.preempt(cluster.id, world.backend.nodes(cluster.id)[0].id)


def test_the_core_quota_is_kept(hasty: World) -> None:
    with pytest.raises(ConflictError, match="exceeding quota") as caught:
        make(hasty, vmSize="STANDARD_NC24")  # 24 cores, beside the default cluster's 4
    assert caught.value.code == "OperationNotAllowed"
    cluster = make(hasty, vmSize="STANDARD_D3")
    patch = {"scaleSettings": {"manual": {"targetNodeCount": 5}}}
    with pytest.raises(ConflictError, match="quota"):
        hasty.backend.update(cluster.id, ClusterPatch.from_wire({"properties": patch}))


def test_usages_count_clusters_and_cores(hasty: World) -> None:
    make(hasty, vmSize="STANDARD_NC6")
    found = {usage.name: (usage.current, usage.limit) for usage in hasty.backend.usages("eastus")}
    assert found["Clusters"] == (2, 20)
    assert found["Total Cluster Dedicated Regional vCPUs"] == (10, 20)
    assert found["Standard NC Family Cluster Dedicated vCPUs"] == (6, 20)
    assert found["Standard NC Family Cluster LowPriority vCPUs"] == (0, 20)


def test_a_file_server_keeps_what_jobs_write_to_it(world: World) -> None:
    disks = {"diskSizeInGB": 10, "diskCount": 2, "storageAccountType": "Standard_LRS"}
    spec = {"vmSize": "STANDARD_D1", "sshConfiguration": {"userAccountSettings": USER}, "dataDisks": disks}
    id = world.workspace.child(Kind.FILE_SERVER, "nfs")
    server = world.backend.create(id, FileServerSpec.from_wire({"properties": spec}))
    assert server.to_wire()["properties"]["mountSettings"]["mountPoint"] == "/data"
    mount = {"fileServers": [{"fileServer": {"id": str(id)}, "relativeMountPath": "nfs"}]}
    for name in ("one", "two"):
        make(world, name, nodeSetup={"mountVolumes": mount})
    code = "import os; open(os.environ['AZ_BATCHAI_MOUNT_ROOT'] + '/nfs/note', 'a').write('x')"
    for name in ("one", "two"):
        world.run(f"{name} --cluster {name}", code)
    reading = "import os; print(open(os.environ['AZ_BATCHAI_MOUNT_ROOT'] + '/nfs/note').read())"
    assert world.run("three --cluster one", reading).log() == "xx\n"


def test_a_missing_file_server_is_named(world: World) -> None:
    missing = world.workspace.child(Kind.FILE_SERVER, "nope")
    mount = {"fileServers": [{"fileServer": {"id": str(missing)}, "relativeMountPath": "nfs"}]}
    with pytest.raises(NotFoundError, match="file server nope"):
        make(world, nodeSetup={"mountVolumes": mount})
