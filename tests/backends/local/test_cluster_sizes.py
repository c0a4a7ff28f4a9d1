"""Which nodes a cluster should have, which come and go when its size changes, and who makes them ready."""

from __future__ import annotations

import json

import pytest

from batchai_magics.backends.local import scheduler
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state import node_table
from batchai_magics.models.cluster_spec import ClusterPatch, ClusterSpec
from batchai_magics.models.resource_ids import ResourceId
from tests.backends.local.still import Still
from tests.contract.place import auto, manual

HOUR = LocalSettings(idle_s=3600.0)
AGES = {"fresh": "strftime('%s') - 3000", "stale": "strftime('%s') - 4000"}


def grown(still: Still, *ages: str, least: int = 0, most: int = 4) -> ResourceId:
    """A cluster with one idle node of each age."""
    cluster = still.cluster(scale=auto(least, most), limits=HOUR)
    still.resize(cluster, len(ages))
    still.prepare()
    for ordinal, age in enumerate(ages):
        still.change(f"UPDATE node SET since = {AGES[age]} WHERE ordinal = ?", ordinal)
    return cluster


def adjusted(still: Still, cluster: ResourceId) -> int:
    scheduler.adjust(still.store)
    return len(still.nodes(cluster))


def test_only_long_idle_nodes_are_removed(still: Still) -> None:
    cluster = grown(still, "fresh", "stale", "fresh")
    first, _, last = still.nodes(cluster)
    adjusted(still, cluster)
    assert list(still.nodes(cluster)) == [first, last]


def test_long_idle_nodes_stay_while_there_is_a_queue(still: Still) -> None:
    cluster = grown(still, "stale", "stale")
    still.job()
    assert adjusted(still, cluster) == 2


def test_cluster_grows_to_the_nodes_of_the_whole_queue(still: Still) -> None:
    cluster = grown(still, "fresh")
    still.job("a", 2)
    still.job("b", 1)
    assert adjusted(still, cluster) == 3


@pytest.mark.slow
def test_nodes_that_are_busy_are_not_counted_for_the_queue(still: Still) -> None:
    cluster = grown(still, "fresh")
    still.job("a")
    still.schedule()
    still.job("b", 2)
    assert adjusted(still, cluster) == 3


@pytest.mark.slow
def test_nodes_that_leave_are_not_counted_at_all(still: Still) -> None:
    cluster = grown(still, "fresh")
    still.job("a")
    still.schedule()
    still.resize(cluster, 0, "waitforjobcompletion")
    assert adjusted(still, cluster) == 1
    still.job("b", 2)
    scheduler.adjust(still.store)
    assert sorted(still.nodes(cluster).values()) == ["leaving", "preparing", "preparing"]


def test_nodes_that_are_being_prepared_are_not_idle(still: Still) -> None:
    cluster = still.cluster(scale=auto(0, 4), limits=HOUR)
    still.resize(cluster, 1)
    still.change("UPDATE node SET since = 0")
    assert adjusted(still, cluster) == 1


@pytest.mark.parametrize(("least", "most", "left"), [(0, 2, 2), (1, 4, 3), (4, 5, 4)])
def test_a_cluster_that_begins_to_scale_keeps_its_nodes_within_the_new_bounds(
    still: Still, least: int, most: int, left: int
) -> None:
    cluster = still.cluster(scale=manual(3))
    patch = patch_of(auto(least, most))
    assert still.patch(cluster, auto(least, most)) == []
    assert len(still.nodes(cluster)) == left
    (row,) = still.rows("SELECT spec FROM resource WHERE key = ?", cluster.key)
    assert ClusterSpec.from_wire(json.loads(row["spec"])).scale_settings == patch.scale_settings
    assert adjusted(still, cluster) == left


def patch_of(scale: dict[str, object]) -> ClusterPatch:
    return ClusterPatch.from_wire({"properties": {"scaleSettings": scale}})


def test_jobs_are_requeued_if_a_smaller_maximum_removes_their_nodes(still: Still) -> None:
    cluster = still.cluster(scale=manual(2))
    guid = still.state(still.job())["guid"]
    still.change("UPDATE node SET state = 'running', job = ?, since = ordinal", guid)
    assert still.patch(cluster, auto(0, 1)) == [guid]
    (row,) = still.rows("SELECT stop FROM job")
    assert row["stop"] == "requeue"
    assert list(still.nodes(cluster).values()) == ["leaving", "running"]


def ready(still: Still, count: int = 2) -> tuple[ResourceId, list[str]]:
    """A cluster of idle nodes, and their ids."""
    cluster = still.cluster(scale=manual(count))
    still.prepare()
    return cluster, list(still.nodes(cluster))


@pytest.mark.parametrize("change", ["state = 'unusable', since = since + 100", "since = since - 100"])
def test_unusable_nodes_go_first_and_then_the_longest_idle(still: Still, change: str) -> None:
    cluster, (first, second) = ready(still)
    still.change(f"UPDATE node SET {change} WHERE id = ?", first)
    still.resize(cluster, 1)
    assert still.nodes(cluster) == {second: "idle"}


@pytest.mark.slow
def test_terminating_job_is_not_requeued_by_a_resize(still: Still) -> None:
    cluster, _ = ready(still)
    job = still.job()
    still.schedule()
    still.change("UPDATE job SET stop = 'terminate'")
    still.resize(cluster, 0, "requeue")
    assert still.state(job)["stop"] == "terminate"


@pytest.mark.slow
def test_a_leaving_node_is_replaced_when_the_cluster_grows_again(still: Still) -> None:
    cluster, _ = ready(still, 1)
    still.job()
    still.schedule()
    still.resize(cluster, 0, "waitforjobcompletion")
    still.resize(cluster, 1)
    assert list(still.nodes(cluster).values()) == ["leaving", "preparing"]


@pytest.mark.parametrize(("problem", "state"), [("", "idle"), ("no disk", "unusable")])
def test_a_node_is_settled_once(still: Still, problem: str, state: str) -> None:
    settled, other = still.nodes(still.cluster())
    with still.store.write() as db:
        node_table.finish_preparation(db, settled, problem)
        node_table.finish_preparation(db, settled, "too late")
    rows = [tuple(row) for row in still.rows("SELECT id, state, error FROM node ORDER BY ordinal")]
    assert rows == [(settled, state, problem), (other, "preparing", "")]


def test_one_process_claims_a_node_and_only_one(still: Still) -> None:
    claimed, other = still.nodes(still.cluster())
    with still.store.write() as db:
        (unclaimed,) = node_table.preparing(db, claimed)
        assert node_table.claim(db, unclaimed, "me")
        assert not node_table.claim(db, unclaimed, "you")
        assert not node_table.claim(db, unclaimed._replace(id="nowhere"), "me")
    assert dict(still.rows("SELECT id, preparer FROM node")) == {claimed: "me", other: ""}
    with still.store.write() as db:
        node_table.set_preparer(db, claimed, "you")
    assert dict(still.rows("SELECT id, preparer FROM node")) == {claimed: "you", other: ""}
