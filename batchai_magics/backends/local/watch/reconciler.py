"""Everything that a daemon would do, in one step: whoever changes or reads something takes it."""

from __future__ import annotations

import math
import subprocess
import threading
import time

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local.folders import unmanaged_mounts
from batchai_magics.backends.local.state.database_errors import DISK_FULL
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import cluster_scaling, node_preparation, recovery, scheduler
from batchai_magics.backends.local.watch.job_secrets import Secrets
from batchai_magics.backends.local.watch.node_assignment import has_pending_work
from batchai_magics.errors import StorageError


class Reconciler:
    """A store and its folders, and what this process does to keep them true."""

    def __init__(self, store: Store, layout: Layout) -> None:
        self.store = store
        self.layout = layout
        self._started: list[subprocess.Popen[bytes]] = []
        self._lock = threading.RLock()
        self._reconciled_s = -math.inf

    def reconcile(
        self, *, is_due: bool = False, secrets: Secrets | None = None, max_age_s: float = 0.0
    ) -> None:
        """Makes what the store says true again: reaps, recovers, prepares nodes, starts what can start.

        Nothing is done when this process began to do so less than `max_age_s` before this call, or after it:
        threads that ask at once are served by one of them. Nor is anything done on a read-only disk.
        """
        asked_s = time.monotonic()
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
                self._reconciled_s = -math.inf  # who has waited for it does it again
                raise

    def reconcile_if_room(self, *, is_due: bool = False) -> None:
        """The same while something is ended: that others cannot start on a full disk is no fault of it."""
        try:
            self.reconcile(is_due=is_due)
        except StorageError as error:
            if error.code != DISK_FULL:
                raise

    def reap(self) -> int:
        """Collects the supervisors that have ended; gives how many that were started here still run."""
        with self._lock:
            self._started = [child for child in self._started if child.poll() is None]
            return len(self._started)


def reconcile_if_due(
    store: Store, layout: Layout, *, is_due: bool = False, secrets: Secrets | None = None
) -> list[subprocess.Popen[bytes]]:
    """Makes what the store says true again, and settles what may have to be settled."""
    if recovery.recover(store, layout) or is_due or has_pending_work(store):
        return reconcile(store, layout, secrets)
    return []


def reconcile(store: Store, layout: Layout, secrets: Secrets | None = None) -> list[subprocess.Popen[bytes]]:
    """Scales, prepares nodes, starts jobs, unmounts; gives the processes that it started (for reaping)."""
    secrets = secrets or Secrets()
    cluster_scaling.adjust(store)
    started = node_preparation.prepare(store, layout, secrets=secrets.setup)
    started += scheduler.schedule(store, layout, secrets=secrets.jobs)
    unmanaged_mounts.sweep(store, layout)
    return started
