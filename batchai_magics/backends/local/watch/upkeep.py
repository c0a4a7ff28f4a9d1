"""Everything that a daemon would do, in one step: whoever changes or reads something takes it."""

from __future__ import annotations

import subprocess
import threading

from batchai_magics.backends.local.folders import unmanaged
from batchai_magics.backends.local.folders.layout import Layout
from batchai_magics.backends.local.state import clusters, jobs, nodes
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import preparation, recovery, scaling, scheduler
from batchai_magics.backends.local.watch.job_secrets import Secrets


class Upkeep:
    """A store and its folders, and what this process does to keep them true."""

    def __init__(self, store: Store, layout: Layout) -> None:
        self.store = store
        self.layout = layout
        self._started: list[subprocess.Popen[bytes]] = []
        self._lock = threading.RLock()

    def settle(self, *, is_due: bool = False, secrets: Secrets | None = None) -> None:
        """Makes what the store says true again: reaps, recovers, prepares nodes, starts what can start."""
        with self._lock:
            self.reap()
            self._started += keep_up(self.store, self.layout, is_due=is_due, secrets=secrets)

    def reap(self) -> int:
        """Collects the supervisors that have ended; gives how many that were started here still run."""
        with self._lock:
            self._started = [child for child in self._started if child.poll() is None]
            return len(self._started)


def keep_up(
    store: Store, layout: Layout, *, is_due: bool = False, secrets: Secrets | None = None
) -> list[subprocess.Popen[bytes]]:
    """Makes what the store says true again, and settles what may have to be settled."""
    if recovery.recover(store, layout) or is_due or _may_be_due(store):
        return settle(store, layout, secrets)
    return []


def settle(store: Store, layout: Layout, secrets: Secrets | None = None) -> list[subprocess.Popen[bytes]]:
    """Scales, prepares nodes, starts jobs, unmounts; gives the processes that it started (for reaping)."""
    secrets = secrets or Secrets()
    scaling.adjust(store)
    started = preparation.prepare(store, layout, secrets=secrets.setup)
    started += scheduler.step(store, layout, secrets=secrets.jobs)
    unmanaged.sweep_nodes(store, layout)
    unmanaged.sweep_mounts(store, layout)
    return started


def _may_be_due(store: Store) -> bool:
    """Whether settling may have something to do."""
    with store.read() as db:
        return nodes.is_any_preparing(db) or clusters.is_any_auto_scaled(db) or jobs.is_any_waiting(db)
