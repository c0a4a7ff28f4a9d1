"""What the statements on runs leave alone: other runs, ended ones, and what was recorded first."""

from __future__ import annotations

import pytest

from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.launch.outcome import Outcome
from batchai_magics.models.states import ExecutionState
from tests.backends.local.still import Still


@pytest.fixture
def run(still: Still) -> JobRow:
    """A queued run beside another one."""
    still.cluster()
    job, _ = still.job("j"), still.job("other")
    with still.store.read() as db:
        return job_table.get(db, job.key)


def now(still: Still, run: JobRow) -> JobRow:
    with still.store.read() as db:
        return job_table.get(db, run.key)


def test_a_run_begins_unless_it_has_to_stop_or_has_ended(still: Still, run: JobRow) -> None:
    with still.store.write() as db:
        assert not job_table.begin(db, run.key, "another guid", ["n1"])
        assert job_table.begin(db, run.key, run.guid, ["n1"])
        job_table.ask_run_to_stop(db, run.guid, "terminate")
        job_table.ask_run_to_stop(db, run.guid, "a later reason")
        assert not job_table.begin(db, run.key, run.guid, ["n2"])
    assert (now(still, run).stop, [each["nodes"] for each in now(still, run).attempts]) == (
        "terminate",
        [["n1"]],
    )


def test_the_first_end_of_a_run_is_recorded_with_its_start(still: Still, run: JobRow) -> None:
    still.change("UPDATE job SET state = 'running', started = 5 WHERE guid = ?", run.guid)
    with still.store.write() as db:
        job_table.end(db, run.key, run.guid, Outcome(3, ended=9.0))
        job_table.end(db, run.key, run.guid, Outcome(0, ended=10.0))
        job_table.set_terminating(db, run.key)
        job_table.requeue(db, run.key, run.guid)
        assert not job_table.claim(db, run.key, run.guid, supervisor="me")
    ended = now(still, run)
    assert (ended.started, ended.ended, ended.exit_code) == (5.0, 9.0, 3)
    assert ended.state is ExecutionState.SUCCEEDED
    assert [row["state"] for row in still.rows("SELECT state FROM job WHERE guid != ?", run.guid)] == [
        "queued"
    ]


@pytest.mark.parametrize(("needs_secrets", "supervisor"), [(True, "me"), (False, "")])
def test_a_supervisor_with_secrets_stays_with_a_run_that_waits_again(
    still: Still, run: JobRow, needs_secrets: bool, supervisor: str
) -> None:
    still.change("UPDATE job SET needs_secrets = ?", needs_secrets)
    with still.store.write() as db:
        assert job_table.claim(db, run.key, run.guid, supervisor="me")
        assert not job_table.claim(db, run.key, run.guid, supervisor="you")
        assert job_table.begin(db, run.key, run.guid, ["n1"])
        job_table.requeue(db, run.key, run.guid, "its node was lost")
    waiting = now(still, run)
    assert (waiting.state, waiting.started, waiting.supervisor) == (ExecutionState.QUEUED, None, supervisor)
    assert [each["reason"] for each in waiting.attempts] == ["its node was lost"]
