"""The rows of jobs: what each statement finds."""

from __future__ import annotations

from batchai_magics.backends.local.state import job_table
from batchai_magics.models.resource_ids import Kind
from tests.backends.local.state.jobs.table import FAILED, OPEN, RUNNING, STATES, key, put, table
from tests.backends.local.still import Still
from tests.contract.place import manual


def test_a_row_is_read_as_it_was_written(still: Still) -> None:
    row = put(
        still,
        "a",
        FAILED,
        node_count=3,
        priority=2,
        needs_secrets=True,
        engine=("docker", "--tls"),
        spawner="me",
        supervisor="you",
        is_assigned=True,
        stop="requeue",
        started=2.0,
        ended=3.0,
        exit_code=7,
        errors=({"code": "JobFailed"},),
        ranks=({"rank": 1},),
    )
    bare = put(still, "b")
    assert table(still) == [row, bare]
    assert [type(value) for value in (table(still)[0].needs_secrets, table(still)[0].is_assigned)] == [
        bool
    ] * 2
    assert (bare.is_open, row.is_open) == (True, False)
    with still.store.read() as db:
        assert job_table.get(db, row.key) == row
        assert job_table.find_run(db, row.key, "run a") == row
        assert job_table.find_run(db, row.key, "run b") is None
        assert job_table.find_run(db, bare.key, "run a") is None


def test_open_runs_are_found_by_job_and_by_name(still: Still) -> None:
    rows = {state: put(still, state.value, state) for state in STATES}
    with still.store.read() as db:
        for state, row in rows.items():
            expected = row if state in OPEN else None
            assert job_table.find_open(db, key=row.key) == expected
            assert job_table.find_open(db, guid=row.guid) == expected
        assert job_table.find_open(db) is None
        assert job_table.is_any_open(db, [row.guid for row in rows.values()]) is True
        ended = [row.guid for state, row in rows.items() if state not in OPEN]
        assert job_table.is_any_open(db, [*ended, "no run"]) is False


def test_runs_that_need_a_process_are_watched(still: Still) -> None:
    put(still, "idle")
    watched = [
        put(still, "a", supervisor="me"),
        put(still, "b", is_assigned=True),
        put(still, "c", needs_secrets=True),
    ]
    put(still, "over", FAILED, supervisor="me", is_assigned=True, needs_secrets=True)
    with still.store.read() as db:
        assert sorted(job_table.open_and_watched(db)) == watched


def test_what_waits_for_nodes(still: Still) -> None:
    with still.store.read() as db:
        assert job_table.waiting_clusters(db) == []
        assert job_table.nodes_waited_for(db, "c") == 0
    put(still, "assigned", is_assigned=True, node_count=10, cluster="busy")
    put(still, "running", RUNNING, node_count=20, cluster="busy")
    put(still, "a", node_count=2)
    put(still, "b", node_count=3)
    put(still, "d", node_count=40, cluster="d")
    put(still, "over", RUNNING, node_count=80)
    put(still, "given", is_assigned=True, node_count=160)
    with still.store.write() as db:
        assert job_table.waiting_clusters(db) == []  # no node is idle
        statement = "INSERT INTO node (id, cluster, ordinal, state, since, job) VALUES (?, ?, 0, ?, 0, ?)"
        db.executemany(statement, [("1", "c", "running", "whole"), ("2", "busy", "idle", None)])
        assert job_table.waiting_clusters(db) == []
        db.execute("UPDATE node SET job = NULL WHERE id = '1'")  # its GPUs are shared
        assert job_table.waiting_clusters(db) == ["c"]
        db.execute("DELETE FROM node WHERE id = '1'")
        db.executemany(statement, [(id, cluster, "idle", None) for id, cluster in ("3c", "4d", "5c")])
        assert sorted(job_table.waiting_clusters(db)) == ["c", "d"]
        assert job_table.nodes_waited_for(db, "c") == 5
        assert job_table.nodes_waited_for(db, "busy") == 0


def test_the_queue_is_in_order_of_priority_then_of_age(still: Still) -> None:
    still.cluster(scale=manual(0))
    still.cluster("other", scale=manual(0))
    for name in ("z", "y", "x", "w"):
        still.job(name)
    still.job("high", schedulingPriority="high")
    still.job("low", schedulingPriority="low")
    still.job("elsewhere", cluster="other")
    for name in ("held", "lost", "given", "runs"):
        still.job(name)
    still.change("UPDATE job SET needs_secrets = 1, supervisor = 'me' WHERE key = ?", key(still, "held"))
    still.change("UPDATE job SET needs_secrets = 1 WHERE key = ?", key(still, "lost"))
    still.change("UPDATE job SET is_assigned = 1 WHERE key = ?", key(still, "given"))
    still.change("UPDATE job SET state = 'running' WHERE key = ?", key(still, "runs"))
    cluster = still.workspace.child(Kind.CLUSTER, "c")
    with still.store.write() as db:
        for name in ("high", "z", "y", "x", "w", "held", "low"):
            job = job_table.next_job(db, cluster.key)
            assert job == job_table.get(db, key(still, name))
            job_table.assign(db, job, spawner="me")
        assert job_table.next_job(db, cluster.key) is None


def test_forgetting_a_job_tells_its_folders_and_keeps_the_others(still: Still) -> None:
    row, other = put(still, "a"), put(still, "b")
    with still.store.write() as db:
        assert job_table.delete(db, row.key) == ["run a"]
        assert job_table.delete(db, row.key) == []
    assert table(still) == [other]
