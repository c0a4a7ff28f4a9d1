"""The store as jobs share it: a supervisor that was stopped in a transaction keeps nobody from writing."""

from __future__ import annotations

from batchai_magics.backends.local.state import jobs
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.local.watch import process


class SharedStore(Store):
    """The store of a home whose jobs have supervisors.

    While another process holds its lock for long, the supervisors of open jobs that were stopped (SIGSTOP)
    go on: one of them may hold it. Reading needs no lock.
    """

    def unlock(self, db: Database) -> None:
        """Continues the supervisors of open jobs; nobody else is signalled."""
        for job in jobs.open_and_watched(db):
            process.go_on(job.supervisor)
