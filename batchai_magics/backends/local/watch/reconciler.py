"""Reconciliation without a daemon: every command that reads or changes state runs one pass."""

from __future__ import annotations

import math
import subprocess
import threading
import time

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local import unmanaged_mounts
from batchai_magics.backends.local.state.database_errors import DISK_FULL
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import node_allocation, node_preparation, recovery, scheduler
from batchai_magics.backends.local.watch.detached_process import Secrets
from batchai_magics.backends.local.watch.node_allocation import has_pending_work
from batchai_magics.errors import StorageError


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
    is_recovered = recovery.recover(store, layout)
    senders = _start_senders(store, layout)
    if is_recovered or is_due or has_pending_work(store):
        return [*senders, *reconcile(store, layout, secrets)]
    return senders


def _start_senders(store: Store, layout: Layout) -> list[subprocess.Popen[bytes]]:
    """Has notifications delivered whose sender died or could not."""
    if not layout.outboxes.exists():
        return []
    from batchai_magics.backends.local.watch import notification_sender  # few homes need it

    return notification_sender.start_missing(store, layout)


def reconcile(store: Store, layout: Layout, secrets: Secrets | None = None) -> list[subprocess.Popen[bytes]]:
    """Scales, prepares nodes, starts jobs, unmounts; returns the processes it started, for reaping."""
    secrets = secrets or Secrets()
    node_allocation.adjust(store)
    started = node_preparation.prepare(store, layout, secrets=secrets.setup)
    started += scheduler.schedule(store, layout, secrets=secrets.jobs)
    unmanaged_mounts.sweep(store, layout)
    return started
