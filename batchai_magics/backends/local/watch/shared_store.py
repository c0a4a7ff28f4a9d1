"""The store as jobs share it: none of its own processes keeps others from writing because it was stopped."""

from __future__ import annotations

from batchai_magics.backends.local.state import job_table, node_table
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.local.watch import process


class SharedStore(Store):
    """The store of a home whose jobs have supervisors.

    While another process holds its lock for long, the supervisors of open jobs and the preparers of nodes
    that were stopped (SIGSTOP) go on: one of them may hold it. Reading needs no lock.
    """

    def unlock(self, db: Database) -> None:
        """Continues supervisors of open jobs and preparers; nobody else is signalled."""
        supervisors = [job.supervisor for job in job_table.open_and_watched(db)]
        for name in (*supervisors, *node_table.preparers(db)):
            process.resume(name)
