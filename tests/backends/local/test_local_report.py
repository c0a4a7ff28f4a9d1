"""What one supervisor writes of its job and nobody else may, and what it does while the store refuses."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from batchai_magics.backends.folders.run_end import read_end
from batchai_magics.backends.local import process, reconciler
from batchai_magics.backends.local.supervisor import LocalReport
from batchai_magics.backends.node.outcome import failed_with, stop_outcome
from batchai_magics.errors import StorageError
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import ProcessExit
from batchai_magics.models.resource_ids import Kind, ResourceId
from tests.backends.local.still import Still, dead
from tests.world import until

pytestmark = pytest.mark.slow


def started(still: Still, **columns: object) -> tuple[ResourceId, LocalReport]:
    """A job that has its node, with a supervisor's view of it."""
    still.cluster()
    still.prepare()
    job = still.job()
    still.schedule()
    still.change("UPDATE job SET supervisor = ''")
    for name, value in columns.items():
        still.change(f"UPDATE job SET {name} = ?", value)
    return job, writer_of(still, still.state(job)["guid"])


def writer_of(still: Still, guid: str) -> LocalReport:
    return LocalReport(still.store, still.layout.job(guid))


def is_open(writer: LocalReport) -> bool:
    run = writer.read()
    return run is not None and run.is_open


def is_assigned(writer: LocalReport) -> bool:
    run = writer.read()
    return run is not None and run.is_assigned


def test_a_job_with_nodes_runs_once_it_is_claimed(still: Still) -> None:
    job, writer = started(still)
    assert writer.claim()
    row = still.state(job)
    (attempt,) = json.loads(row["attempts"])
    assert (row["state"], row["started"]) == ("running", attempt["started"])
    assert attempt["nodes"] == [
        name
        for name, state in still.nodes(still.workspace.child(Kind.CLUSTER, "c")).items()
        if state == "running"
    ]


@pytest.mark.parametrize("column", ["is_assigned = 0", "state = 'terminating', stop = 'terminate'"])
def test_a_job_without_nodes_or_that_has_to_stop_is_claimed_and_not_begun(still: Still, column: str) -> None:
    job, writer = started(still)
    still.change(f"UPDATE job SET {column}")
    before = still.state(job)
    assert writer.claim()
    row = still.state(job)
    assert row["supervisor"] == process.own_identity()
    assert (row["state"], row["started"], row["attempts"]) == (before["state"], None, "[]")


ENDED = ("succeeded", "failed")


@pytest.mark.parametrize("is_alive", [True, False])
def test_job_with_another_supervisor_cannot_be_claimed(still: Still, is_alive: bool) -> None:
    other = process.identity(os.getppid()) if is_alive else dead()
    job, writer = started(still, supervisor=other)
    assert not writer.claim()
    assert still.state(job)["supervisor"] == other


@pytest.mark.parametrize("state", ENDED)
def test_ended_job_can_be_neither_claimed_nor_begun(still: Still, state: str) -> None:
    job, writer = started(still, state=state)
    assert not writer.claim()
    assert not writer.begin()
    assert not is_open(writer)
    assert still.state(job)["state"] == state


def test_later_run_of_a_job_cannot_be_claimed_by_an_earlier_one(still: Still) -> None:
    job, _ = started(still)
    earlier = writer_of(still, "another run")
    assert not earlier.claim()
    assert not is_open(earlier)
    assert not is_assigned(earlier)
    earlier.finish(failed_with("JobFailed", "it is another one"))
    assert still.state(job)["state"] == "queued"


def test_outcome_of_an_ended_job_does_not_change(still: Still) -> None:
    job, writer = started(still)
    writer.finish(Outcome(0))
    before = tuple(still.state(job))
    writer.finish(failed_with("JobSupervisorLost", "too late"))
    writer.finish(stop_outcome("requeue"))
    assert tuple(still.state(job)) == before


# -- a store that refuses


ENDED_SO = Outcome(3, ({"code": "JobFailed", "message": "oh"},), (ProcessExit(0, "n", 3, 12.5),))


def broken(still: Still, monkeypatch, *, path: str = "write") -> None:
    """The store refuses from now on."""

    def refuse():
        raise StorageError("broken", code="StoreUnavailable")

    monkeypatch.setattr(still.store, path, refuse)


def test_an_outcome_that_the_store_never_takes_is_read_from_the_jobs_folder(
    still: Still, monkeypatch
) -> None:
    job, writer = started(still, supervisor=dead())
    writer.begin()
    writer.finish_s = 0.0
    with monkeypatch.context() as meanwhile:
        broken(still, meanwhile)
        writer.finish(ENDED_SO)
    kept = read_end(still.layout.job(still.state(job)["guid"]).end)
    assert kept._replace(ended=0.0) == ENDED_SO
    assert reconciler.recover_jobs(still.store, still.layout)
    row = still.state(job)
    assert (row["state"], row["exit_code"], row["ended"]) == ("failed", 3, kept.ended)
    assert json.loads(row["ranks"])[0]["exit_code"] == 3


def test_temporary_store_error_is_retried_and_returns_the_next_job(still: Still, monkeypatch) -> None:
    job, writer = started(still)
    following = still.job("next", 2)
    write, unsupported = still.store.write, [StorageError("locked")] * 3

    def busy():
        if unsupported:
            raise unsupported.pop()
        return write()

    writer.retry_s = 0.0
    monkeypatch.setattr(still.store, "write", busy)
    writer.finish(Outcome(0), takes_next=True)
    row = still.state(job)
    assert row["state"] == "succeeded"
    assert row["ended"] == read_end(still.layout.job(row["guid"]).end).ended
    assert writer.next_job.key == following.key


def test_supervisor_does_not_wait_for_a_store_deleted_with_its_job(still: Still, monkeypatch) -> None:
    job, writer = started(still)
    root = still.layout.job(still.state(job)["guid"]).root
    shutil.rmtree(root)
    broken(still, monkeypatch)
    writer.finish(Outcome(0))
    assert not root.exists()


@pytest.mark.parametrize("content", ["", "[]", '{"version": 2}'])
def test_unreadable_outcome_file_counts_as_a_lost_supervisor(still: Still, content: str) -> None:
    job, _ = started(still, supervisor=dead(), state="running")
    still.layout.job(still.state(job)["guid"]).end.write_text(content)
    assert reconciler.recover_jobs(still.store, still.layout)
    assert json.loads(still.state(job)["errors"])[0]["code"] == "JobSupervisorLost"


def test_job_continues_unchanged_while_the_store_is_unreadable(still: Still, monkeypatch) -> None:
    job, writer = started(still)
    assert writer.stop_reason() == ""
    broken(still, monkeypatch, path="read")
    assert writer.stop_reason() == ""
    assert is_open(writer)
    monkeypatch.undo()
    root = still.layout.job(still.state(job)["guid"]).root
    shutil.rmtree(root)
    broken(still, monkeypatch, path="read")
    assert writer.stop_reason() == "the job was deleted"


FINISHES = """
import sys
from pathlib import Path
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.local.supervisor import LocalReport
from batchai_magics.launch.outcome import Outcome
SignalPipe()
layout = Layout(Path(sys.argv[1]))
LocalReport(Store(layout.database), layout.job("guid")).finish(Outcome(0))
"""


def test_process_waiting_for_a_broken_store_ends_on_sigterm(tmp_path) -> None:
    (tmp_path / "state.db").mkdir()
    end = tmp_path / "jobs" / "guid" / "end.json"
    end.parent.mkdir(parents=True)
    child = subprocess.Popen([sys.executable, "-c", FINISHES, str(tmp_path)])
    until(end.exists)
    assert child.poll() is None
    while child.poll() is None:  # it may not have come to the waiting yet
        child.terminate()
    assert child.returncode == -signal.SIGTERM
    assert read_end(end).exit_code == 0
