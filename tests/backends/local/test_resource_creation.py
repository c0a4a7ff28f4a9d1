"""Making and forgetting: what is there at once, what is refused, what goes with what."""

from __future__ import annotations

import json

import pytest

from batchai_magics.backends.local import runner
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.watch import process
from batchai_magics.backends.service import resource_changes
from batchai_magics.errors import ConflictError, NotFoundError, SpecError
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import WorkspaceSpec
from tests.backends.local.still import Still
from tests.contract.place import auto, manual

TABLES = ("resource", "cluster", "node", "job")


def counts(still: Still) -> dict[str, int]:
    return {table: still.rows(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES}


def test_a_quota_may_be_used_up_to_its_last_core(still: Still) -> None:
    limits = LocalSettings(core_quota=4)
    still.cluster("a", scale=manual(1), limits=limits)
    still.cluster("b", scale=manual(3), limits=limits)
    with pytest.raises(ConflictError, match=r"allowed: 4, Current in use: 4, Additional requested: 1"):
        still.cluster("c", scale=manual(1), limits=limits)


def test_a_clusters_own_cores_do_not_stand_in_the_way_of_its_size(still: Still) -> None:
    cluster = still.cluster(scale=manual(3))
    still.scale(cluster, 4, core_quota=4)
    with pytest.raises(ConflictError):
        still.scale(cluster, 5, core_quota=4)
    other = still.cluster("other", scale=manual(0))
    with pytest.raises(ConflictError):
        still.scale(other, 1, core_quota=4)


@pytest.mark.parametrize("scale", [manual(2), auto(0, 2)])
def test_a_job_as_large_as_its_cluster_is_taken_and_a_larger_one_is_not(still: Still, scale) -> None:
    still.cluster(scale=scale)
    still.job("a", 2)
    before = counts(still)
    with pytest.raises(SpecError, match="3 nodes were requested"):
        still.job("b", 3)
    assert counts(still) == before


def test_a_refused_cluster_leaves_no_row(still: Still) -> None:
    before = counts(still)
    with pytest.raises(ConflictError):
        still.cluster(limits=LocalSettings(core_quota=1))
    assert counts(still) == before


def test_a_job_without_its_experiment_is_refused_for_that(still: Still) -> None:
    still.cluster()
    still.experiment = still.workspace.child(Kind.EXPERIMENT, "nope")
    with pytest.raises(NotFoundError, match="experiment nope"):
        still.job()


def test_a_mounted_file_server_has_to_be_there(still: Still) -> None:
    server = {"id": str(still.workspace.child(Kind.FILE_SERVER, "nfs"))}
    mounts = {"fileServers": [{"fileServer": server, "relativeMountPath": "nfs"}]}
    with pytest.raises(NotFoundError, match="file server nfs"):
        still.cluster(nodeSetup={"mountVolumes": mounts})
    still.cluster()
    with pytest.raises(NotFoundError, match="file server nfs"):
        still.job(mountVolumes=mounts)


def test_a_new_job_says_who_made_it_and_where_it_writes(still: Still) -> None:
    still.cluster()
    row = still.state(still.job(count=2, schedulingPriority="low"))
    assert (row["state"], row["is_assigned"], row["node_count"], row["priority"]) == ("queued", 0, 2, 0)
    assert (row["spawner"], row["supervisor"]) == (process.own_identity(), "")
    assert row["output_root"].endswith("/shares/local/batchaishare")


def test_the_first_workspace_makes_its_resource_group(still: Still) -> None:
    still.create(
        still.workspace.workspace_id.__class__.parse(f"{still.workspace}2"), WorkspaceSpec(location="away")
    )
    (group,) = still.rows("SELECT name, location FROM resource_group")
    assert tuple(group) == ("g", WorkspaceSpec().location)


@pytest.mark.slow
def test_forgetting_a_cluster_ends_what_waits_for_it_and_tells_what_runs(still: Still) -> None:
    cluster = still.cluster()
    still.cluster("other")
    still.prepare()
    running, waiting, ended = still.job("a"), still.job("b", 2), still.job("d", cluster="other")
    elsewhere = still.job("e", cluster="other")
    still.schedule()
    still.fail(ended)
    resource_changes.delete(still.backend.context, cluster)
    assert still.state(running)["state"] == "terminating"
    assert still.state(running)["stop"] == "The cluster c was deleted"
    (error,) = json.loads(still.state(waiting)["errors"])
    assert (error["code"], still.state(waiting)["state"]) == ("ClusterNotFound", "failed")
    assert "it was told to" in still.state(ended)["errors"]
    assert still.state(elsewhere)["stop"] == ""
    assert not still.nodes(cluster)


def test_with_a_job_goes_its_folder_and_nothing_else(still: Still) -> None:
    still.cluster()
    job = still.job()
    folder = still.layout.job(still.state(job)["guid"]).root
    assert folder.exists()
    resource_changes.delete(still.backend.context, job)
    assert not folder.exists()
    assert counts(still) == {"resource": 3, "cluster": 1, "node": 2, "job": 0}


def test_what_is_inside_comes_before_what_holds_it_and_names_are_not_cut(still: Still) -> None:
    still.cluster()
    still.cluster("c2")
    job = still.job()
    records = still.backend.context.repository
    inside = [record.id for record in records.subtree(still.workspace)]
    assert [record.name for record in records.subtree(still.workspace.child(Kind.CLUSTER, "c"))] == ["c"]
    assert (inside[0], inside[-1], len(inside)) == (str(job), str(still.workspace), 5)


@pytest.mark.slow
def test_asking_a_job_to_stop(still: Still) -> None:
    still.cluster()
    still.prepare()
    begun, assigned, waiting, ended = (still.job(name, 1) for name in "abcd")
    still.schedule()
    still.change("UPDATE job SET state = 'running' WHERE key = ?", begun.key)
    still.fail(ended)
    before = tuple(still.state(ended))
    guids = [still.state(job)["guid"] for job in (begun, assigned, waiting, ended)]
    assert runner.request_stop(still.store, guids) == [still.state(job)["guid"] for job in (begun, assigned)]
    states = [(still.state(job)["state"], still.state(job)["stop"]) for job in (begun, assigned)]
    assert states == [("terminating", "terminate")] * 2
    assert still.state(waiting)["state"] == "failed"
    assert tuple(still.state(ended)) == before


def test_waiting_for_an_end_that_does_not_come_says_so(still: Still, monkeypatch) -> None:
    monkeypatch.setattr(resource_changes, "END_TIMEOUT_S", 0.0)
    still.cluster()
    still.prepare()
    job = still.job("a")
    still.schedule()  # nobody ends it
    with pytest.raises(ConflictError, match="job a does not end"):
        resource_changes.delete(still.backend.context, still.experiment)
    assert still.state(job)["state"] == "terminating"


def test_a_job_that_ends_while_it_is_waited_for(still: Still, monkeypatch) -> None:
    still.cluster()
    still.prepare()
    job = still.job()
    still.schedule()
    monkeypatch.setattr(resource_changes.time, "sleep", lambda _: still.fail(job))
    resource_changes.delete(still.backend.context, job)
    assert not still.rows("SELECT 1 FROM job")


def test_the_same_description_again_is_the_same_and_another_is_not(still: Still) -> None:
    cluster = still.cluster()
    before = counts(still)
    assert still.cluster() == cluster
    with pytest.raises(ConflictError) as caught:
        still.cluster(vmSize="STANDARD_D2")
    assert caught.value.code == "ClusterAlreadyExists"
    assert counts(still) == before
