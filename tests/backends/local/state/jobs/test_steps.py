"""The rows of jobs: what a row says after each step."""

from __future__ import annotations

import pytest

from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.node.outcome import failed_with
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import ProcessExit
from batchai_magics.models.states import ExecutionState
from tests.backends.local.state.jobs.table import (
    FAILED,
    NOW,
    OPEN,
    QUEUED,
    RUNNING,
    STATES,
    SUCCEEDED,
    TERMINATING,
    put,
    table,
)
from tests.backends.local.still import Still


def test_a_job_that_gets_its_nodes_says_since_when_and_by_whom(still: Still) -> None:
    row, other = put(still, "a", spawner="old"), put(still, "b")
    with still.store.write() as db:
        given = job_table.assign(db, row, spawner="me")
    assert given == row._replace(is_assigned=True, changed=NOW, spawner="me")
    assert table(still) == [given, other]


def test_the_first_supervisor_is_noted(still: Still) -> None:
    row, other = put(still, "a"), put(still, "b")
    with still.store.write() as db:
        job_table.set_supervisor(db, row._replace(guid=other.guid), "stranger")
        assert job_table.supervisor_of(db, row.guid) == ""
        job_table.set_supervisor(db, row, "me")
        job_table.set_supervisor(db, row, "you")
        assert job_table.supervisor_of(db, row.guid) == "me"
        assert job_table.supervisor_of(db, "nowhere") == ""
    assert table(still) == [row._replace(supervisor="me"), other]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("before", ["", "me", "you"])
def test_who_may_claim_a_run(still: Still, state: ExecutionState, before: str) -> None:
    row, other = put(still, "a", state, supervisor=before), put(still, "b")
    may = state in OPEN and before != "you"
    with still.store.write() as db:
        assert job_table.claim(db, row.key, other.guid, supervisor="me") is False
        assert job_table.claim(db, row.key, row.guid, supervisor="me") is may
    assert table(still) == [row._replace(supervisor="me") if may else row, other]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("stop", ["", "terminate"])
def test_an_open_run_that_need_not_stop_begins(still: Still, state: ExecutionState, stop: str) -> None:
    row, other = put(still, "a", state, stop=stop), put(still, "b")
    may = state in OPEN and not stop
    with still.store.write() as db:
        assert job_table.begin(db, row.key, other.guid) is False
        assert job_table.begin(db, row.key, row.guid, ["n1"]) is may
    begun = row._replace(
        state=RUNNING, changed=NOW, started=NOW, attempts=({"nodes": ["n1"], "started": NOW},)
    )
    assert table(still) == [begun if may else row, other]


def test_a_run_that_is_queued_again_keeps_each_attempt_with_its_reason(still: Still) -> None:
    row = put(still, "a")
    with still.store.write() as db:
        for again, nodes in (("a node was preempted", ["n1"]), ("", ["n2", "n3"])):
            job_table.begin(db, row.key, row.guid, nodes)
            job_table.ask_run_to_stop(db, row.guid, "requeue", again=again)
            job_table.requeue(db, row.key, row.guid)
            job_table.requeue(db, row.key, row.guid)  # it had not begun
    (found,) = table(still)
    assert found.attempts == (
        {"nodes": ["n1"], "started": NOW, "ended": NOW, "reason": "a node was preempted"},
        {"nodes": ["n2", "n3"], "started": NOW, "ended": NOW, "reason": "it was queued again"},
    )
    assert found.again == ""


def test_a_run_keeps_its_first_reason_to_stop_and_a_job_its_last(still: Still) -> None:
    row, other = put(still, "a"), put(still, "b")
    with still.store.write() as db:
        job_table.ask_run_to_stop(db, row.guid, "requeue")
        job_table.ask_run_to_stop(db, row.guid, "terminate")
    assert table(still) == [row._replace(stop="requeue"), other]
    with still.store.write() as db:
        job_table.ask_to_stop(db, row.key, "terminate")
    assert table(still) == [row._replace(stop="terminate"), other]


@pytest.mark.parametrize("state", STATES)
def test_only_a_job_that_has_not_ended_comes_to_terminating(still: Still, state: ExecutionState) -> None:
    row, other = put(still, "a", state), put(still, "b", RUNNING)
    with still.store.write() as db:
        job_table.set_terminating(db, row.key)
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
        job_table.requeue(db, row.key, other.guid)
        job_table.requeue(db, row.key, row.guid)
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
        job_table.end(db, row.key, other.guid, outcome)
        job_table.end(db, row.key, row.guid, outcome)
        job_table.end(db, row.key, row.guid, Outcome(0))
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
        job_table.end(db, row.key, row.guid, Outcome(0))
    assert table(still) == [
        row._replace(state=SUCCEEDED, changed=NOW, started=NOW, ended=NOW, exit_code=0),
    ]
