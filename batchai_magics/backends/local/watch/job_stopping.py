"""Stopping jobs: requesting it, notifying supervisors, and waiting for the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.local.watch import process, recovery
from batchai_magics.backends.local.watch.outcome_writer import write_outcome
from batchai_magics.backends.node.outcome import TERMINATE, stopped
from batchai_magics.backends.service import api_errors
from batchai_magics.models.resource_ids import ResourceId

PATIENCE_S = 2 * recovery.OVERDUE_S  # recovery kills a supervisor after half of it


def request_stop(store: Store, keys: Sequence[str]) -> list[str]:
    """Requests, in one transaction, that jobs stop; queued jobs without nodes end at once.

    Works on a full disk. Returns the guids to `wake`.
    """
    return store.insist(lambda db: [guid for key in keys for guid in _request_stop(db, key)])


def _request_stop(db: Database, key: str) -> list[str]:
    job = job_table.find_open(db, key=key)
    if job is None:
        return []
    job_table.ask_to_stop(db, key, TERMINATE)
    if job.is_assigned:
        job_table.set_terminating(db, key)
    else:
        write_outcome(db, key, job.guid, stopped(TERMINATE))
    return [job.guid] if job.supervisor else []


def wake(store: Store, guids: Iterable[str]) -> None:
    """Has the supervisors of these runs read the store now.

    One that has not started its job polls anyway, and SIGTERM would end it while it loads.
    """
    with store.read() as db:
        watched = [(job_table.supervisor_of(db, guid), job_table.has_begun(db, guid)) for guid in guids]
    for supervisor, has_begun in watched:
        call = process.ask_to_end if has_begun else process.resume
        call(supervisor)


def wait_for_end(store: Store, ids: Sequence[ResourceId], *, settle: Callable[[], None]) -> None:
    """Waits until the jobs, which were told to stop, have ended; ConflictError after `PATIENCE_S`."""
    deadline = time.monotonic() + PATIENCE_S
    while open_ids := _open(store, ids):
        if time.monotonic() > deadline:
            raise api_errors.does_not_end(open_ids[0])
        time.sleep(0.02)
        settle()


def _open(store: Store, ids: Sequence[ResourceId]) -> list[ResourceId]:
    with store.read() as db:
        keys = job_table.open_among(db, [id.key for id in ids])
    return [id for id in ids if id.key in keys]
