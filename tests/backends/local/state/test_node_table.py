"""Which nodes come and go when a cluster changes its size, their jobs, and who makes nodes ready."""

from __future__ import annotations

import pytest

from batchai_magics.backends.local.state import node_table
from batchai_magics.models.resource_ids import ResourceId
from tests.backends.local.still import Still
from tests.contract.place import manual


def ready(still: Still, count: int = 2) -> tuple[ResourceId, list[str]]:
    """A cluster of idle nodes, and their ids."""
    cluster = still.cluster(scale=manual(count))
    still.prepare()
    return cluster, list(still.nodes(cluster))


def test_unusable_nodes_go_first(still: Still) -> None:
    cluster, (first, second) = ready(still)
    still.change("UPDATE node SET state = 'unusable' WHERE id = ?", first)
    still.change("UPDATE node SET since = since + 100 WHERE id = ?", first)
    still.resize(cluster, 1)
    assert still.nodes(cluster) == {second: "idle"}


def test_of_idle_nodes_the_one_that_was_idle_longest_goes(still: Still) -> None:
    cluster, (first, second) = ready(still)
    still.change("UPDATE node SET since = since - 100 WHERE id = ?", first)
    still.resize(cluster, 1)
    assert still.nodes(cluster) == {second: "idle"}


@pytest.mark.slow
def test_who_was_told_to_end_is_not_queued_again_instead(still: Still) -> None:
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
