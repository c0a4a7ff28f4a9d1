"""What one supervisor may write of its job, and what nobody else may."""

from __future__ import annotations

import json
import os

import pytest

from batchai_magics.backends.local.watch import process
from batchai_magics.backends.local.watch.verdict import Verdicts
from batchai_magics.backends.node.outcome import Outcome, failed_with, stopped
from batchai_magics.errors import StorageError
from batchai_magics.models.ids import ResourceId
from tests.backends.local.still import Still, dead

pytestmark = pytest.mark.slow

ENDED = ("succeeded", "failed")


def started(still: Still, **columns: object) -> tuple[ResourceId, Verdicts]:
    """A job that has its node, with a supervisor's view of it."""
    still.cluster()
    still.prepare()
    job = still.job()
    still.schedule()
    still.change("UPDATE job SET supervisor = ''")
    for name, value in columns.items():
        still.change(f"UPDATE job SET {name} = ?", value)
    return job, Verdicts(still.store, job.key, still.state(job)["guid"])


def test_a_job_without_a_supervisor_is_claimed(still: Still) -> None:
    job, verdicts = started(still)
    assert verdicts.claim()
    assert still.state(job)["supervisor"] == process.own_identity()
    assert verdicts.claim()  # it is ours already


@pytest.mark.parametrize("is_alive", [True, False])
def test_nobody_claims_a_job_that_has_another_supervisor(still: Still, is_alive: bool) -> None:
    other = process.identity(os.getppid()) if is_alive else dead()
    job, verdicts = started(still, supervisor=other)
    assert not verdicts.claim()
    assert still.state(job)["supervisor"] == other


@pytest.mark.parametrize("state", ENDED)
def test_nobody_claims_or_begins_a_job_that_has_ended(still: Still, state: str) -> None:
    job, verdicts = started(still, state=state)
    assert not verdicts.claim()
    assert not verdicts.begin()
    assert not verdicts.is_open()
    assert still.state(job)["state"] == state


def test_nobody_claims_a_later_run_of_the_job(still: Still) -> None:
    job, _ = started(still)
    earlier = Verdicts(still.store, job.key, "another run")
    assert not earlier.claim()
    assert not earlier.is_open()
    assert not earlier.is_assigned()
    earlier.finish(failed_with("JobFailed", "it is another one"))
    assert still.state(job)["state"] == "queued"


def test_a_job_that_was_told_to_stop_does_not_begin(still: Still) -> None:
    job, verdicts = started(still, stop="terminate")
    assert not verdicts.begin()
    assert still.state(job)["started"] is None


def test_a_job_that_begins_says_since_when_it_runs(still: Still) -> None:
    job, verdicts = started(still, changed=0.0)
    assert verdicts.begin()
    row = still.state(job)
    assert row["state"] == "running"
    assert row["started"] == row["changed"] > 0


def test_the_reason_to_stop_is_read_anew_each_time(still: Still) -> None:
    _, verdicts = started(still)
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    assert verdicts.stop_reason(reader) == ""
    os.write(writer, b"!")
    still.change("UPDATE job SET stop = 'requeue'")
    assert verdicts.stop_reason(reader) == "requeue"
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    still.change("DELETE FROM job")
    assert verdicts.stop_reason(reader) == "the job was deleted"
    assert not verdicts.is_open()


@pytest.mark.parametrize(
    ("outcome", "state"), [(Outcome(0), "succeeded"), (failed_with("JobFailed", "oh"), "failed")]
)
def test_an_end_frees_the_nodes_and_keeps_what_became_of_it(
    still: Still, outcome: Outcome, state: str
) -> None:
    job, verdicts = started(still)
    cluster = still.workspace.child(still.workspace.kind.CLUSTER, "c")
    verdicts.begin()
    began = still.state(job)["started"]
    still.change("UPDATE node SET since = 0")
    verdicts.finish(outcome)
    row = still.state(job)
    assert (row["state"], row["exit_code"], row["is_assigned"]) == (state, outcome.exit_code, 0)
    assert (row["started"], json.loads(row["errors"])) == (began, list(outcome.errors))
    assert row["ended"] == row["changed"] >= began
    assert list(still.nodes(cluster).values()) == ["idle", "idle"]
    freed, untouched = still.rows("SELECT since, job FROM node ORDER BY ordinal")
    assert freed["since"] > 0
    assert (freed["job"], untouched["since"]) == (None, 0)


def test_what_has_ended_stays_as_it_ended(still: Still) -> None:
    job, verdicts = started(still)
    verdicts.finish(Outcome(0))
    before = tuple(still.state(job))
    verdicts.finish(failed_with("JobSupervisorLost", "too late"))
    verdicts.finish(stopped("requeue"))
    assert tuple(still.state(job)) == before


def test_a_job_that_is_queued_again_forgets_its_nodes_and_its_supervisor(still: Still) -> None:
    job, verdicts = started(still)
    verdicts.claim()
    verdicts.begin()
    still.change("UPDATE job SET stop = 'requeue'")
    verdicts.finish(stopped("requeue"))
    row = still.state(job)
    assert (row["state"], row["is_assigned"], row["stop"], row["spawner"]) == ("queued", 0, "", "")
    assert (row["supervisor"], row["started"], row["ended"]) == ("", None, None)


def test_who_knows_a_jobs_secrets_keeps_it_when_it_is_queued_again(still: Still) -> None:
    job, verdicts = started(still, needs_secrets=1)
    verdicts.claim()
    verdicts.finish(stopped("requeue"))
    assert still.state(job)["supervisor"] == process.own_identity()


def test_a_node_that_was_leaving_is_gone_with_its_job(still: Still) -> None:
    _, verdicts = started(still)
    cluster = still.workspace.child(still.workspace.kind.CLUSTER, "c")
    still.change("UPDATE node SET state = 'leaving' WHERE job IS NOT NULL")
    verdicts.finish(Outcome(0))
    assert list(still.nodes(cluster).values()) == ["idle"]


def test_a_full_disk_takes_the_outcome_from_the_reserve(still: Still, monkeypatch) -> None:
    _, verdicts = started(still)
    still.store.make_reserve()
    write, reserve = still.store.write, still.layout.home / "reserve"

    def full():
        if reserve.exists():
            raise StorageError("full")
        return write()

    monkeypatch.setattr(still.store, "write", full)
    verdicts.finish(Outcome(0))
    assert not verdicts.is_open()
