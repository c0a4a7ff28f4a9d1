"""The rows of nodes: what each statement changes, and that it leaves all others as they are."""

from __future__ import annotations

import hashlib

import pytest

from batchai_magics.backends.local.state import job_table, node_table
from batchai_magics.backends.local.state.node_table import NodeRow
from batchai_magics.models.states import DeallocationOption, NodeState
from tests.backends.local.state.nodes.table import (
    IDLE,
    LEAVING,
    NOW,
    PREPARING,
    RUNNING,
    UNUSABLE,
    guid_of,
    other,
    put,
    table,
)
from tests.backends.local.still import Still


@pytest.mark.parametrize(("problem", "state"), [("", IDLE), ("no disk", UNUSABLE)])
def test_a_node_is_settled_once(still: Still, cluster, problem: str, state: NodeState) -> None:
    a, b, c = put(still, cluster, ("a", 0, PREPARING, 1.0), ("b", 1, PREPARING, 2.0), ("c", 2, IDLE, 3.0))
    with still.store.write() as db:
        node_table.finish_preparation(db, "a", problem)
        node_table.finish_preparation(db, "c", "too late")
    assert table(still) == [a._replace(state=state, since=NOW, error=problem), b, c]


def test_one_process_claims_a_node_and_only_one(still: Still, cluster) -> None:
    a, b = put(still, cluster, ("a", 0, PREPARING, 1.0), ("b", 1, PREPARING, 2.0))
    with still.store.write() as db:
        assert node_table.claim(db, "a", "me") is True
        assert node_table.claim(db, "a", "you") is False
        assert node_table.claim(db, "nowhere", "me") is False
    assert table(still) == [a._replace(preparer="me"), b]
    with still.store.write() as db:
        node_table.set_preparer(db, "a", "you")
    assert table(still) == [a._replace(preparer="you"), b]


def test_a_job_is_given_the_oldest_idle_nodes_that_it_asks_for(still: Still, cluster) -> None:
    rows = put(
        still,
        cluster,
        ("a", 4, IDLE, 1.0),
        ("b", 1, IDLE, 2.0),
        ("c", 0, PREPARING, 3.0),
        ("d", 3, IDLE, 4.0),
    )
    put(still, other(still), ("e", 0, IDLE, 5.0))
    still.change("UPDATE cluster SET target = 9")
    job = still.job(count=2)
    guid = still.state(job)["guid"]
    with still.store.write() as db:
        assert node_table.assign(db, cluster.key, job_table.get(db, job.key)) is True
    a, b, c, d = rows
    given = {"state": RUNNING, "since": NOW, "job": guid}
    e = NodeRow("e", other(still).key, 0, IDLE, 5.0)
    assert table(still) == [a, b._replace(**given), c, d._replace(**given), e]


def test_a_job_is_given_all_of_its_nodes_or_none(still: Still, cluster) -> None:
    rows = put(still, cluster, ("a", 0, IDLE, 1.0), ("b", 1, RUNNING, 1.0, "run"), ("c", 2, IDLE, 1.0))
    still.change("UPDATE cluster SET target = 9")
    small, large = still.job("small", 2), still.job("large", 3)
    with still.store.write() as db:
        assert node_table.assign(db, cluster.key, job_table.get(db, large.key)) is False
    assert table(still) == rows
    with still.store.write() as db:
        assert node_table.assign(db, cluster.key, job_table.get(db, small.key)) is True


def test_the_nodes_of_a_run_that_is_over_are_idle_or_gone(still: Still, cluster) -> None:
    a, _, c, d, e = put(
        still,
        cluster,
        ("a", 0, RUNNING, 1.0, "run", "me", ""),
        ("b", 1, LEAVING, 2.0, "run"),
        ("c", 2, RUNNING, 3.0, "another run"),
        ("d", 3, LEAVING, 4.0, "another run"),
        ("e", 4, IDLE, 5.0),
    )
    with still.store.write() as db:
        node_table.release(db, "run")
    assert table(still) == [a._replace(state=IDLE, since=NOW, job=None), c, d, e]


def test_a_cluster_that_grows_gets_new_nodes_with_new_names(still: Still, cluster) -> None:
    still.change("UPDATE cluster SET next_ordinal = 7, changed = 0")
    (kept,) = put(still, cluster, ("a", 3, IDLE, 1.0))
    assert still.resize(cluster, 3) == []
    digest = int(hashlib.sha256(guid_of(still, cluster).encode()).hexdigest()[:8], 16)
    assert table(still) == [
        kept,
        *(
            NodeRow(f"tvm-{digest}_{number + 1}-20260102t030405z-p", cluster.key, number, PREPARING, NOW)
            for number in (7, 8)
        ),
    ]
    rows = still.rows("SELECT key, target, changed, next_ordinal FROM cluster ORDER BY key")
    assert [tuple(row) for row in rows] == [(cluster.key, 3, NOW, 9), (other(still).key, 0, 0.0, 7)]


@pytest.mark.parametrize("target", [1, 2])
def test_a_cluster_that_does_not_grow_gets_no_node_and_no_number(still: Still, cluster, target: int) -> None:
    a, b = put(still, cluster, ("a", 0, IDLE, 2.0), ("b", 1, IDLE, 1.0))
    assert still.resize(cluster, target) == []
    assert table(still) == [a, b][:target]
    (row,) = still.rows("SELECT target, next_ordinal FROM cluster WHERE key = ?", cluster.key)
    assert tuple(row) == (target, 0)


@pytest.mark.parametrize("option", DeallocationOption)
def test_busy_nodes_leave_when_their_jobs_are_done(still: Still, cluster, option) -> None:
    still.change("UPDATE cluster SET target = 9")
    job, spared = still.job("a"), still.job("b")
    guid, spared_guid = still.state(job)["guid"], still.state(spared)["guid"]
    rows = put(
        still,
        cluster,
        ("a", 0, RUNNING, 1.0, guid, "me", ""),
        ("b", 1, RUNNING, 2.0, spared_guid),
        ("c", 2, RUNNING, 0.5, None),  # of no run: nobody to wait for
        ("d", 3, IDLE, 9.0),
        ("e", 4, LEAVING, 9.0, "run"),
    )
    is_told = option is not DeallocationOption.WAIT_FOR_JOB_COMPLETION
    assert still.resize(cluster, 1, option.value) == ([guid] if is_told else [])
    assert table(still) == [rows[0]._replace(state=LEAVING), rows[1], rows[4]]
    assert (still.state(job)["stop"], still.state(spared)["stop"]) == (option.value if is_told else "", "")


def test_of_several_jobs_each_is_told(still: Still, cluster) -> None:
    still.change("UPDATE cluster SET target = 9")
    guids = [still.state(still.job(name))["guid"] for name in "ab"]
    put(still, cluster, ("a", 0, RUNNING, 1.0, guids[0]), ("b", 1, RUNNING, 2.0, guids[1]))
    assert still.resize(cluster, 0) == guids


def test_a_preempted_busy_node_is_replaced_and_its_job_starts_again(still: Still, cluster) -> None:
    still.change("UPDATE cluster SET target = 2, next_ordinal = 2")
    job = still.job()
    guid = still.state(job)["guid"]
    a, b = put(still, cluster, ("a", 0, RUNNING, 1.0, guid), ("b", 1, IDLE, 2.0))
    assert still.preempt(cluster, "a") == [guid]
    leaving, kept, new = table(still)
    assert (leaving, kept) == (a._replace(state=LEAVING), b)
    assert (new.cluster, new.ordinal, new.state, new.since) == (cluster.key, 2, PREPARING, NOW)
    assert still.state(job)["stop"] == "requeue"
    (row,) = still.rows("SELECT target, next_ordinal FROM cluster WHERE key = ?", cluster.key)
    assert tuple(row) == (2, 3)


@pytest.mark.parametrize("count", [1, 3])
def test_every_new_node_takes_a_number(still: Still, cluster, count: int) -> None:
    still.resize(cluster, count)
    (row,) = still.rows("SELECT next_ordinal FROM cluster WHERE key = ?", cluster.key)
    assert row["next_ordinal"] == count
