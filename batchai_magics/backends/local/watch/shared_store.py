"""A store whose lock holders, if they are stopped processes of this package, are resumed."""

from __future__ import annotations

from batchai_magics.backends.local.state import job_table, node_table
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.local.watch import process


class SharedStore(Store):
    """The store of a home whose jobs have supervisors.

    When the write lock is held for long, supervisors of open jobs and node preparers get SIGCONT, since a
    stopped one may hold it. Readers need no lock.
    """

    def unlock(self, db: Database) -> None:
        """Resumes supervisors of open jobs and node preparers."""
        supervisors = [job.supervisor for job in job_table.open_and_watched(db)]
        for name in (*supervisors, *node_table.preparers(db)):
            process.resume(name)
