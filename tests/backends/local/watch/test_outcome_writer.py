"""What one supervisor may write of its job, and what nobody else may."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from batchai_magics.backends.folders.run_end import read_end
from batchai_magics.backends.local.state.store import RESERVE_BYTES
from batchai_magics.backends.local.watch import process
from batchai_magics.backends.node.outcome import failed_with, stopped
from batchai_magics.errors import StorageError
from batchai_magics.launch.outcome import Outcome
from tests.backends.local.still import Still, dead
from tests.backends.local.watch.outcome_writers import started, writer_of

pytestmark = pytest.mark.slow

ENDED = ("succeeded", "failed")


def test_a_job_without_a_supervisor_is_claimed(still: Still) -> None:
    job, writer = started(still)
    assert writer.claim()
    assert still.state(job)["supervisor"] == process.own_identity()
    assert writer.claim()  # it is ours already


def test_a_claim_is_noted_in_the_jobs_folder_for_its_owner_alone(still: Still) -> None:
    job, writer = started(still)
    writer.claim()
    note = still.layout.job(still.state(job)["guid"]).supervisor
    assert (note.read_text(), note.stat().st_mode & 0o777) == (process.own_identity(), 0o600)


def test_a_claim_that_cannot_be_noted_counts(still: Still) -> None:
    job, writer = started(still)
    shutil.rmtree(still.layout.job(still.state(job)["guid"]).root)
    assert writer.claim()
    assert still.state(job)["supervisor"] == process.own_identity()


def test_a_job_has_its_nodes_or_waits_for_them(still: Still) -> None:
    _, writer = started(still)
    assert writer.is_assigned()
    still.change("UPDATE job SET is_assigned = 0")
    assert not writer.is_assigned()


@pytest.mark.parametrize("is_alive", [True, False])
def test_nobody_claims_a_job_that_has_another_supervisor(still: Still, is_alive: bool) -> None:
    other = process.identity(os.getppid()) if is_alive else dead()
    job, writer = started(still, supervisor=other)
    assert not writer.claim()
    assert still.state(job)["supervisor"] == other


@pytest.mark.parametrize("state", ENDED)
def test_nobody_claims_or_begins_a_job_that_has_ended(still: Still, state: str) -> None:
    job, writer = started(still, state=state)
    assert not writer.claim()
    assert not writer.begin()
    assert not writer.is_open()
    assert still.state(job)["state"] == state


def test_nobody_claims_a_later_run_of_the_job(still: Still) -> None:
    job, _ = started(still)
    earlier = writer_of(still, job, "another run")
    assert not earlier.claim()
    assert not earlier.is_open()
    assert not earlier.is_assigned()
    earlier.finish(failed_with("JobFailed", "it is another one"))
    assert still.state(job)["state"] == "queued"


def test_a_job_that_was_told_to_stop_does_not_begin(still: Still) -> None:
    job, writer = started(still, stop="terminate")
    assert not writer.begin()
    assert still.state(job)["started"] is None


def test_a_job_that_begins_says_since_when_it_runs(still: Still) -> None:
    job, writer = started(still, changed=0.0)
    assert writer.begin()
    row = still.state(job)
    assert row["state"] == "running"
    assert row["started"] == row["changed"] > 0


def test_the_reason_to_stop_is_read_anew_each_time(still: Still) -> None:
    _, writer = started(still)
    assert writer.stop_reason() == ""
    still.change("UPDATE job SET stop = 'requeue'")
    assert writer.stop_reason() == "requeue"
    still.change("DELETE FROM job")
    assert writer.stop_reason() == "the job was deleted"
    assert not writer.is_open()


@pytest.mark.parametrize(
    ("outcome", "state"), [(Outcome(0), "succeeded"), (failed_with("JobFailed", "oh"), "failed")]
)
def test_an_end_frees_the_nodes_and_keeps_what_became_of_it(
    still: Still, outcome: Outcome, state: str
) -> None:
    job, writer = started(still)
    cluster = still.workspace.child(still.workspace.kind.CLUSTER, "c")
    writer.begin()
    began = still.state(job)["started"]
    still.change("UPDATE node SET since = 0")
    writer.finish(outcome)
    row = still.state(job)
    assert (row["state"], row["exit_code"], row["is_assigned"]) == (state, outcome.exit_code, 0)
    assert (row["started"], json.loads(row["errors"])) == (began, list(outcome.errors))
    assert row["ended"] == read_end(still.layout.job(row["guid"]).end).ended >= began
    assert row["changed"] >= row["ended"]
    assert list(still.nodes(cluster).values()) == ["idle", "idle"]
    freed, untouched = still.rows("SELECT since, job FROM node ORDER BY ordinal")
    assert freed["since"] > 0
    assert (freed["job"], untouched["since"]) == (None, 0)


def test_what_has_ended_stays_as_it_ended(still: Still) -> None:
    job, writer = started(still)
    writer.finish(Outcome(0))
    before = tuple(still.state(job))
    writer.finish(failed_with("JobSupervisorLost", "too late"))
    writer.finish(stopped("requeue"))
    assert tuple(still.state(job)) == before


def test_a_job_that_is_queued_again_forgets_its_nodes_and_its_supervisor(still: Still) -> None:
    job, writer = started(still)
    writer.claim()
    writer.begin()
    still.change("UPDATE job SET stop = 'requeue'")
    writer.finish(stopped("requeue"))
    row = still.state(job)
    assert (row["state"], row["is_assigned"], row["stop"], row["spawner"]) == ("queued", 0, "", "")
    assert (row["supervisor"], row["started"], row["ended"]) == ("", None, None)


def test_who_knows_a_jobs_secrets_keeps_it_when_it_is_queued_again(still: Still) -> None:
    job, writer = started(still, needs_secrets=1)
    writer.claim()
    writer.finish(stopped("requeue"))
    assert still.state(job)["supervisor"] == process.own_identity()


def test_a_node_that_was_leaving_is_gone_with_its_job(still: Still) -> None:
    _, writer = started(still)
    cluster = still.workspace.child(still.workspace.kind.CLUSTER, "c")
    still.change("UPDATE node SET state = 'leaving' WHERE job IS NOT NULL")
    writer.finish(Outcome(0))
    assert list(still.nodes(cluster).values()) == ["idle"]


def test_a_full_disk_takes_the_outcome_from_the_reserve(still: Still, monkeypatch) -> None:
    _, writer = started(still)
    still.store.make_reserve()
    write, reserve = still.store.write, still.store.reserve

    def full():
        if reserve.size_bytes == RESERVE_BYTES:
            raise StorageError("full", code="DiskFull")
        return write()

    monkeypatch.setattr(still.store, "write", full)
    writer.finish(Outcome(0))
    assert not writer.is_open()
