"""Stopping jobs: requesting it, notifying supervisors, and waiting for the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.local.watch import process
from batchai_magics.backends.local.watch.outcome_writer import write_outcome
from batchai_magics.backends.node.outcome import TERMINATE, dependency_failed, failed_with, stopped
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.service.runner import Run
from batchai_magics.launch.outcome import Outcome


def kill_stopped(store: Store, guids: Sequence[str]) -> None:
    """Kills the processes of runs that have been asked to stop."""
    with store.read() as db:
        jobs = [job for guid in guids if (job := job_table.find_open(db, guid=guid)) and job.stop]
    for job in jobs:
        termination.kill(partial(process.marked, job.guid))


def request_stop(store: Store, guids: Sequence[str]) -> list[str]:
    """Requests, in one transaction, that runs stop; queued ones without nodes end at once.

    Works on a full disk. Returns the guids to `wake`.
    """
    with store.read() as db:
        if not job_table.is_any_open(db, guids):
            return []
    return store.insist(lambda db: [guid for guid in guids if _request_stop(db, guid)])


def _request_stop(db: Database, guid: str) -> bool:
    """Whether a supervisor has to be told."""
    job = job_table.find_open(db, guid=guid)
    if job is None:
        return False
    _stop(db, job, TERMINATE, stopped(TERMINATE))
    return bool(job.supervisor)


def _stop(db: Database, job: JobRow, reason: str, unless_assigned: Outcome) -> None:
    """Has a job with nodes stop for a reason; ends one without."""
    if job.is_assigned:
        job_table.ask_to_stop(db, job.key, reason)
        job_table.set_terminating(db, job.key)
    else:
        write_outcome(db, job.key, job.guid, unless_assigned)


def end_without_cluster(store: Store, guids: Sequence[str], text: str) -> None:
    """Ends runs whose cluster is deleted, for the reason in `text`."""

    def end(db: Database) -> None:
        for guid in guids:
            if job := job_table.find_open(db, guid=guid):
                _stop(db, job, text, failed_with("ClusterNotFound", text))

    store.insist(end)


def end_waiting(store: Store, guids: Sequence[str], predecessor: Run) -> None:
    """Ends those of these runs that still wait for a predecessor, which is about to be deleted."""
    end = dependency_failed(predecessor.name, "was deleted")

    def end_all(db: Database) -> None:
        for run in job_table.waiting_for(db, predecessor.guid):
            if run.guid in guids:
                write_outcome(db, run.key, run.guid, end)

    store.insist(end_all)


def wake(store: Store, guids: Iterable[str]) -> None:
    """Has the supervisors of these runs read the store now.

    One that has not started its job polls anyway, and SIGTERM would end it while it loads.
    """
    with store.read() as db:
        watched = [(job_table.supervisor_of(db, guid), job_table.has_begun(db, guid)) for guid in guids]
    for supervisor, has_begun in watched:
        call = process.ask_to_end if has_begun else process.resume
        call(supervisor)
