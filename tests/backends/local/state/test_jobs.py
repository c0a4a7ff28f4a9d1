"""The rows of jobs: what each statement finds, and what a row says after each step."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from batchai_magics.backends.local.state import jobs, queue
from batchai_magics.backends.local.state.jobs import JobRow
from batchai_magics.backends.node.outcome import Outcome, failed_with
from batchai_magics.launch.plan import ProcessExit
from batchai_magics.models.ids import Kind
from batchai_magics.models.states import ExecutionState
from tests.backends.local.still import Still
from tests.contract.place import manual

NOW = 1_767_323_045.0
QUEUED, RUNNING, TERMINATING, SUCCEEDED, FAILED = (
    ExecutionState.QUEUED,
    ExecutionState.RUNNING,
    ExecutionState.TERMINATING,
    ExecutionState.SUCCEEDED,
    ExecutionState.FAILED,
)
STATES = (QUEUED, RUNNING, TERMINATING, SUCCEEDED, FAILED)
OPEN = (QUEUED, RUNNING, TERMINATING)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (jobs, queue):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: NOW))


def put(still: Still, name: str, state: ExecutionState = QUEUED, **values: object) -> JobRow:
    """Writes a run down, with the guid `run NAME`; gives it as it was written."""
    fields = {
        "cluster": "c",
        "node_count": 1,
        "priority": 1,
        "output_root": "/out",
        "python": "/python",
        "needs_secrets": False,
        "engine": (),
        "changed": 1.0,
        **values,
    }
    row = JobRow(key=key(still, name), guid=f"run {name}", state=state, **fields)
    with still.store.write() as db:
        jobs.insert(db, row)
    return row


def key(still: Still, name: str) -> str:
    return still.experiment.child(Kind.JOB, name).key


def table(still: Still) -> list[JobRow]:
    """All runs, in the order of their keys."""
    with still.store.read() as db:
        return [JobRow.of(row) for row in db.execute("SELECT * FROM job ORDER BY key")]


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
        assert jobs.get(db, row.key) == row
        assert jobs.find_with_id(db, row.key) is None  # no resource has that key
        assert jobs.find_run(db, row.key, "run a") == row
        assert jobs.find_run(db, row.key, "run b") is None
        assert jobs.find_run(db, bare.key, "run a") is None


def test_open_runs_are_found_by_job_by_name_and_by_cluster(still: Still) -> None:
    rows = {state: put(still, state.value, state) for state in STATES}
    elsewhere = put(still, "elsewhere", cluster="d")
    with still.store.read() as db:
        for state, row in rows.items():
            expected = row if state in OPEN else None
            assert jobs.find_open(db, key=row.key) == expected
            assert jobs.find_open(db, guid=row.guid) == expected
        assert jobs.find_open(db) is None
        assert set(jobs.open_on(db, "c")) == {rows[state] for state in OPEN}
        assert jobs.open_on(db, "d") == [elsewhere]
        assert jobs.open_on(db, "nowhere") == []


def test_runs_that_need_a_process_are_watched(still: Still) -> None:
    put(still, "idle")
    watched = [
        put(still, "a", supervisor="me"),
        put(still, "b", is_assigned=True),
        put(still, "c", needs_secrets=True),
    ]
    put(still, "over", FAILED, supervisor="me", is_assigned=True, needs_secrets=True)
    with still.store.read() as db:
        assert sorted(jobs.open_and_watched(db)) == watched


def test_what_waits_for_nodes(still: Still) -> None:
    with still.store.read() as db:
        assert queue.waiting_clusters(db) == []
        assert queue.nodes_waited_for(db, "c") == 0
    put(still, "assigned", is_assigned=True, node_count=10, cluster="busy")
    put(still, "running", RUNNING, node_count=20, cluster="busy")
    put(still, "a", node_count=2)
    put(still, "b", node_count=3)
    put(still, "d", node_count=40, cluster="d")
    put(still, "over", RUNNING, node_count=80)
    put(still, "given", is_assigned=True, node_count=160)
    with still.store.write() as db:
        assert queue.waiting_clusters(db) == []  # no node is idle
        statement = "INSERT INTO node (id, cluster, ordinal, state, since) VALUES (?, ?, 0, ?, 0)"
        db.executemany(statement, [("1", "c", "running"), ("2", "busy", "idle")])
        assert queue.waiting_clusters(db) == []
        db.executemany(statement, [("3", "c", "idle"), ("4", "d", "idle"), ("5", "c", "idle")])
        assert sorted(queue.waiting_clusters(db)) == ["c", "d"]
        assert queue.nodes_waited_for(db, "c") == 5
        assert queue.nodes_waited_for(db, "busy") == 0


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
            job = queue.next_in_queue(db, cluster.key)
            assert job == jobs.get(db, key(still, name))
            queue.assign(db, job, spawner="me")
        assert queue.next_in_queue(db, cluster.key) is None


def test_a_job_that_gets_its_nodes_says_since_when_and_by_whom(still: Still) -> None:
    row, other = put(still, "a", spawner="old"), put(still, "b")
    with still.store.write() as db:
        given = queue.assign(db, row, spawner="me")
    assert given == row._replace(is_assigned=True, changed=NOW, spawner="me")
    assert table(still) == [given, other]


def test_the_first_supervisor_is_noted(still: Still) -> None:
    row, other = put(still, "a"), put(still, "b")
    with still.store.write() as db:
        jobs.note_supervisor(db, row._replace(guid=other.guid), "stranger")
        assert jobs.supervisor_of(db, row.guid) == ""
        jobs.note_supervisor(db, row, "me")
        jobs.note_supervisor(db, row, "you")
        assert jobs.supervisor_of(db, row.guid) == "me"
        assert jobs.supervisor_of(db, "nowhere") == ""
    assert table(still) == [row._replace(supervisor="me"), other]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("before", ["", "me", "you"])
def test_who_may_claim_a_run(still: Still, state: ExecutionState, before: str) -> None:
    row, other = put(still, "a", state, supervisor=before), put(still, "b")
    may = state in OPEN and before != "you"
    with still.store.write() as db:
        assert jobs.claim(db, row.key, other.guid, supervisor="me") is False
        assert jobs.claim(db, row.key, row.guid, supervisor="me") is may
    assert table(still) == [row._replace(supervisor="me") if may else row, other]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("stop", ["", "terminate"])
def test_an_open_run_that_need_not_stop_begins(still: Still, state: ExecutionState, stop: str) -> None:
    row, other = put(still, "a", state, stop=stop), put(still, "b")
    may = state in OPEN and not stop
    with still.store.write() as db:
        assert jobs.begin(db, row.key, other.guid) is False
        assert jobs.begin(db, row.key, row.guid, ["n1"]) is may
    begun = row._replace(
        state=RUNNING, changed=NOW, started=NOW, attempts=({"nodes": ["n1"], "started": NOW},)
    )
    assert table(still) == [begun if may else row, other]


def test_a_run_that_is_queued_again_keeps_each_attempt_with_its_reason(still: Still) -> None:
    row = put(still, "a")
    with still.store.write() as db:
        for again, nodes in (("a node was preempted", ["n1"]), ("", ["n2", "n3"])):
            jobs.begin(db, row.key, row.guid, nodes)
            jobs.ask_run_to_stop(db, row.guid, "requeue", again=again)
            jobs.requeue(db, row.key, row.guid)
            jobs.requeue(db, row.key, row.guid)  # it had not begun
    (found,) = table(still)
    assert found.attempts == (
        {"nodes": ["n1"], "started": NOW, "ended": NOW, "reason": "a node was preempted"},
        {"nodes": ["n2", "n3"], "started": NOW, "ended": NOW, "reason": "it was queued again"},
    )
    assert found.again == ""


def test_a_run_keeps_its_first_reason_to_stop_and_a_job_its_last(still: Still) -> None:
    row, other = put(still, "a"), put(still, "b")
    with still.store.write() as db:
        jobs.ask_run_to_stop(db, row.guid, "requeue")
        jobs.ask_run_to_stop(db, row.guid, "terminate")
    assert table(still) == [row._replace(stop="requeue"), other]
    with still.store.write() as db:
        jobs.ask_to_stop(db, row.key, "terminate")
    assert table(still) == [row._replace(stop="terminate"), other]


@pytest.mark.parametrize("state", STATES)
def test_only_a_job_that_has_not_ended_comes_to_terminating(still: Still, state: ExecutionState) -> None:
    row, other = put(still, "a", state), put(still, "b", RUNNING)
    with still.store.write() as db:
        jobs.note_terminating(db, row.key)
    after = row._replace(state=TERMINATING, changed=NOW) if state in (QUEUED, RUNNING) else row
    assert table(still) == [after, other]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("secret", [True, False])
def test_a_run_that_waits_again_is_as_new_and_keeps_who_knows_its_secrets(
    still: Still, state: ExecutionState, secret: bool
) -> None:
    values = {"spawner": "me", "supervisor": "you", "is_assigned": True, "stop": "requeue", "started": 2.0}
    row = put(still, "a", state, needs_secrets=secret, **values)
    other = put(still, "b", RUNNING, needs_secrets=secret, **values)
    with still.store.write() as db:
        jobs.requeue(db, row.key, other.guid)
        jobs.requeue(db, row.key, row.guid)
    again = row._replace(
        **{"state": QUEUED, "changed": NOW, "started": None, "is_assigned": False, "spawner": "", "stop": ""},
        supervisor="you" if secret else "",
    )
    assert table(still) == [again if state in OPEN else row, other]


@pytest.mark.parametrize("state", STATES)
def test_the_end_of_an_open_run_is_written_down_once(still: Still, state: ExecutionState) -> None:
    row = put(still, "a", state, is_assigned=True, started=2.0)
    other = put(still, "b", RUNNING, is_assigned=True)
    failed = failed_with("JobFailed", "it was told to", rank=1)
    exits = (ProcessExit(1, "n1", 7, 3.0), ProcessExit(0, "n0"))
    outcome = Outcome(7, failed.errors, exits)
    with still.store.write() as db:
        jobs.end(db, row.key, other.guid, outcome)
        jobs.end(db, row.key, row.guid, outcome)
        jobs.end(db, row.key, row.guid, Outcome(0))
    ended = row._replace(
        state=FAILED,
        changed=NOW,
        ended=NOW,
        exit_code=7,
        errors=failed.errors,
        ranks=tuple(rank._asdict() for rank in exits),
        is_assigned=False,
    )
    assert table(still) == [ended if state in OPEN else row, other]


def test_a_run_that_never_began_began_when_it_ended(still: Still) -> None:
    row = put(still, "a")
    with still.store.write() as db:
        jobs.end(db, row.key, row.guid, Outcome(0))
    assert table(still) == [
        row._replace(state=SUCCEEDED, changed=NOW, started=NOW, ended=NOW, exit_code=0),
    ]


def test_forgetting_a_job_tells_its_folders_and_keeps_the_others(still: Still) -> None:
    row, other = put(still, "a"), put(still, "b")
    with still.store.write() as db:
        assert jobs.delete(db, row.key) == ["run a"]
        assert jobs.delete(db, row.key) == []
    assert table(still) == [other]


def test_a_run_is_found_with_the_id_that_its_job_was_given(still: Still) -> None:
    still.cluster()
    id = still.job("ResNet")
    with still.store.read() as db:
        assert jobs.find_with_id(db, id.key) == (str(id), jobs.get(db, id.key))
        assert jobs.find_with_id(db, "nope") is None
