"""The rows of nodes: what each statement finds."""

from __future__ import annotations

from batchai_magics.backends.local.state import node_table
from batchai_magics.backends.local.state.node_table import JobNode, NewNode, NodeRow
from tests.backends.local.state.nodes.table import (
    IDLE,
    LEAVING,
    PREPARING,
    RUNNING,
    UNUSABLE,
    guid_of,
    other,
    put,
)
from tests.backends.local.still import Still


def test_the_nodes_of_a_cluster_are_told_in_the_order_of_their_making(still: Still, cluster) -> None:
    a, b, c = put(
        still,
        cluster,
        ("a", 2, IDLE, 1.0),
        ("b", 0, RUNNING, 3.0, "run", "me", ""),
        ("c", 1, UNUSABLE, 2.0, None, "", "no disk"),
    )
    put(still, other(still), ("d", 0, IDLE, 1.0))
    with still.store.read() as db:
        assert node_table.of_cluster(db, cluster.key) == [b, c, a]
        assert node_table.of_cluster(db, other(still).key) == [NodeRow("d", other(still).key, 0, IDLE, 1.0)]
        assert node_table.of_cluster(db, "nowhere") == []
        assert node_table.ids(db) == {"a", "b", "c", "d"}


def test_who_stays_is_told_in_the_order_of_going(still: Still, cluster) -> None:
    rows = put(
        still,
        cluster,
        ("gone", 0, LEAVING, 0.0, "run"),
        ("busy late", 1, RUNNING, 9.0, "run"),
        ("busy early", 2, RUNNING, 2.0, "run"),
        ("idle late", 3, IDLE, 8.0),
        ("old", 4, IDLE, 3.0),
        ("new", 5, PREPARING, 3.0),
        ("bad", 6, UNUSABLE, 99.0, None, "", "no disk"),
    )
    put(still, other(still), ("elsewhere", 0, IDLE, 1.0))
    by_id = {row.id: row for row in rows}
    with still.store.read() as db:
        staying = node_table.not_leaving(db, cluster.key)
    assert staying == [by_id[id] for id in ("bad", "new", "old", "idle late", "busy early", "busy late")]


def test_a_run_is_told_its_places_among_all_nodes_of_the_cluster(still: Still, cluster) -> None:
    put(
        still,
        cluster,
        ("z", 3, RUNNING, 1.0, "run"),
        ("y", 5, RUNNING, 1.0, "run"),
        ("x", 1, IDLE, 1.0),
        ("w", 4, RUNNING, 1.0, "another run"),
    )
    put(still, other(still), ("elsewhere", 0, RUNNING, 1.0, "yet another"))
    guid = guid_of(still, cluster)
    with still.store.read() as db:
        assert node_table.job_nodes(db, "run") == [
            JobNode("z", guid, 4, 1, ""),
            JobNode("y", guid, 4, 3, ""),
        ]
        assert node_table.job_nodes(db, "no run") == []


def test_nodes_that_are_not_ready_are_found_all_or_one(still: Still, cluster) -> None:
    with still.store.read() as db:
        assert not node_table.is_any_preparing(db)
    put(still, cluster, ("a", 0, PREPARING, 1.0, None, "me"), ("b", 1, IDLE, 1.0), ("c", 2, PREPARING, 1.0))
    guid = guid_of(still, cluster)
    a, c = NewNode("a", "me", guid), NewNode("c", "", guid)
    with still.store.read() as db:
        assert sorted(node_table.preparing(db)) == [a, c]
        assert node_table.preparing(db, "c") == [c]
        assert node_table.preparing(db, "b") == []
        assert node_table.is_any_preparing(db) is True
    still.change("UPDATE node SET state = 'idle'")
    with still.store.read() as db:
        assert node_table.is_any_preparing(db) is False


def test_whose_a_node_is(still: Still, cluster) -> None:
    put(still, cluster, ("a", 0, IDLE, 1.0))
    mine, others = guid_of(still, cluster), guid_of(still, other(still))
    with still.store.read() as db:
        assert node_table.has_node(db, mine) is True
        assert node_table.has_node(db, mine, "a") is True
        assert node_table.has_node(db, mine, "b") is False
        assert node_table.has_node(db, others) is False
        assert node_table.has_node(db, others, "a") is False
        assert node_table.cluster_guid(db, "a") == mine


def test_nodes_are_counted_by_state_for_one_cluster(still: Still, cluster) -> None:
    put(still, cluster, ("a", 0, IDLE, 1.0), ("b", 1, IDLE, 1.0), ("c", 2, RUNNING, 1.0, "run"))
    put(still, other(still), ("d", 0, LEAVING, 1.0))
    with still.store.read() as db:
        assert node_table.counts(db, cluster.key) == {IDLE: 2, RUNNING: 1}
        assert node_table.counts(db, other(still).key) == {LEAVING: 1}
        assert node_table.counts(db, "nowhere") == {}
