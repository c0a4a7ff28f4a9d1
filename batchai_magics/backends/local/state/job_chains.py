"""Runs that start after others: they are in the queue when those have ended, or end with them."""

from __future__ import annotations

import sqlite3

from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.local.state.job_table import Awaited
from batchai_magics.backends.node.outcome import dependency_failed
from batchai_magics.models.states import ExecutionState


def release_dependents(db: sqlite3.Connection, guid: str, *, is_success: bool) -> None:
    """After the end of a run: queues those that waited for nothing else, or ends them, and so on."""
    ended = [(guid, is_success)]
    while ended:
        guid, is_success = ended.pop()
        for run in job_table.waiting_for(db, guid):
            predecessor = next(each for each in run.after if each.guid == guid)
            if predecessor.must_succeed and not is_success:
                job_table.end(db, run.key, run.guid, dependency_failed(predecessor.name))
                ended.append((run.guid, False))
            else:
                job_table.set_after(db, run.guid, [each for each in run.after if each != predecessor])


def end_dependents_of_lost(db: sqlite3.Connection) -> None:
    """Does the same for runs that do not exist any more, as if they had failed."""
    for guid in job_table.lost_predecessors(db):
        release_dependents(db, guid, is_success=False)


def release_from(db: sqlite3.Connection, predecessor: Awaited) -> bool:
    """Does the same for a run that may have ended; False if it does not exist."""
    run = job_table.find_by_guid(db, predecessor.guid)
    if run and not run.is_open:
        release_dependents(db, run.guid, is_success=run.state is ExecutionState.SUCCEEDED)
    return run is not None


def release_all(db: sqlite3.Connection) -> None:
    """Does so for all runs that others wait for; those that wait for one that does not exist end."""
    for predecessor in {each for run in job_table.all_waiting(db) for each in run.after}:
        release_from(db, predecessor)
    end_dependents_of_lost(db)
