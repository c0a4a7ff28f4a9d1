"""Reconciliation without a daemon: writers, the follow loop and each command run a pass; reading does not.

Jobs whose supervisor is gone end or are requeued, and their processes are killed.
"""

from __future__ import annotations

import math
import subprocess
import threading
import time

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local import unmanaged_mounts
from batchai_magics.backends.local.state import job_chains, job_table
from batchai_magics.backends.local.state.database_errors import DISK_FULL
from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.local.watch import (
    lost_runs,
    node_allocation,
    node_preparation,
    process,
    scheduler,
)
from batchai_magics.backends.local.watch.detached_process import Secrets
from batchai_magics.backends.local.watch.node_allocation import has_pending_work
from batchai_magics.backends.local.watch.outcome_writer import write_outcome
from batchai_magics.backends.node import containers
from batchai_magics.backends.node.ranks import temporary_folder, termination
from batchai_magics.errors import StorageError
from batchai_magics.launch.plan import GRACE_S, Plan, PlanError
from batchai_magics.models.states import ExecutionState

OVERDUE_S = 15.0  # a supervisor that has not ended a terminating job so long after its grace is killed


def recover_jobs(store: Store, layout: Layout) -> bool:
    """Ends or requeues open jobs without a live supervisor; True if there were any.

    Jobs that wait for one which was deleted meanwhile end, too.

    Supervisors that are overdue in ending their job (hung, or stopped by SIGSTOP) are killed first.
    """
    with store.read() as db:
        watched = job_table.open_and_watched(db)
        is_waiting_for_lost = bool(job_table.lost_predecessors(db))
    if is_waiting_for_lost:
        store.insist(job_chains.end_dependents_of_lost)
    for job in watched:
        since_s = time.time() - job.changed - OVERDUE_S
        if job.state is ExecutionState.TERMINATING and since_s > 0 and since_s > _grace_s(layout, job):
            process.kill_one(job.supervisor)
    orphans = [job for job in watched if not lost_runs.is_watched(job)]
    for job in orphans:
        _recover_job(store, layout, job)
    if orphans:
        temporary_folder.sweep()
    return bool(orphans) or is_waiting_for_lost


def _grace_s(layout: Layout, job: JobRow) -> float:
    """How long the processes of a job may take to end."""
    try:
        return Plan.read(str(layout.job(job.guid).plan)).limits.grace_s
    except (OSError, PlanError):  # nothing of it runs yet, or its folder is damaged
        return GRACE_S


def _recover_job(store: Store, layout: Layout, job: JobRow) -> None:
    termination.kill(lambda: process.marked(job.guid))
    containers.delete_credentials(layout.job(job.guid).registry)
    store.insist(lambda db: _end_job(db, layout, job))


def _end_job(db: Database, layout: Layout, job: JobRow) -> None:
    now = job_table.find_open(db, guid=job.guid)
    if now is None or now.supervisor != job.supervisor or lost_runs.is_watched(now):
        return  # it has ended or has another supervisor meanwhile
    end = lost_runs.end_of(layout, now)
    if end.is_requeued:
        layout.job(job.guid).plan.unlink(missing_ok=True)  # the next attempt has other nodes
    else:
        layout.job(job.guid).environment.unlink(missing_ok=True)
    write_outcome(db, job.key, job.guid, end)


class Reconciler:
    """Reconciles a store and its folders with the processes and nodes that exist."""

    def __init__(self, store: Store, layout: Layout) -> None:
        self.store = store
        self.layout = layout
        self._started: list[subprocess.Popen[bytes]] = []
        self._lock = threading.RLock()
        self._reconciled_s = -math.inf

    def reconcile(
        self, *, is_due: bool = False, secrets: Secrets | None = None, max_age_s: float = 0.0
    ) -> None:
        """Runs one pass: reaps, recovers, prepares nodes, starts jobs.

        Args:
            is_due: Whether to start what can start even if the store shows no pending work.
            secrets: Secrets of a resource that has just been created.
            max_age_s: Skips the pass if another one began in this process less than this long before the
                call; concurrent callers share one pass. On a read-only disk there is no pass.
        """
        asked_s = time.monotonic()
        self.store.leave_snapshot()  # others need the store while this thread waits
        with self._lock:
            if self._reconciled_s > asked_s - max_age_s and not is_due:
                return
            self.reap()
            if self.store.is_read_only:
                return
            self._reconciled_s = time.monotonic()
            try:
                self.store.reserve.refill()
                self._started += reconcile_if_due(self.store, self.layout, is_due=is_due, secrets=secrets)
            except BaseException:
                self._reconciled_s = -math.inf  # callers that wait for the lock retry
                raise

    def reconcile_if_room(self, *, is_due: bool = False, max_age_s: float = 0.0) -> None:
        """Like `reconcile`, but ignores a full disk: ending a job must not fail since others cannot start."""
        try:
            self.reconcile(is_due=is_due, max_age_s=max_age_s)
        except StorageError as error:
            if error.code != DISK_FULL:
                raise

    def reap(self) -> int:
        """Reaps supervisors that have exited; returns how many children of this process still run."""
        self.store.leave_snapshot()
        with self._lock:
            self._started = [child for child in self._started if child.poll() is None]
            return len(self._started)


def reconcile_if_due(
    store: Store, layout: Layout, *, is_due: bool = False, secrets: Secrets | None = None
) -> list[subprocess.Popen[bytes]]:
    """Recovers orphaned jobs, then reconciles if anything is pending; returns the processes it started."""
    is_recovered, started = recover_jobs(store, layout), list[subprocess.Popen[bytes]]()
    if layout.outboxes.exists():  # notifications whose sender died or could not deliver them
        from batchai_magics.backends.local.watch import notification_sender  # few homes need it

        started += notification_sender.start_missing(store, layout)
    if is_recovered or is_due or has_pending_work(store):
        started += reconcile(store, layout, secrets)
    return started


def reconcile(store: Store, layout: Layout, secrets: Secrets | None = None) -> list[subprocess.Popen[bytes]]:
    """Scales, prepares nodes, starts jobs, unmounts; returns the processes it started, for reaping."""
    secrets = secrets or Secrets()
    node_allocation.adjust(store)
    started = node_preparation.prepare(store, layout, secrets=secrets.setup)
    started += scheduler.schedule(store, layout, secrets=secrets.jobs)
    unmanaged_mounts.sweep(store, layout)
    return started
