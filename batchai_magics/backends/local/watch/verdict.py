"""A supervisor's word in the store: the job is mine, it has begun, it has ended so."""

from __future__ import annotations

import os
import time

from batchai_magics.backends.local.state import jobs, nodes
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.local.watch import process
from batchai_magics.backends.node.outcome import Outcome
from batchai_magics.errors import StorageError


class Verdicts:
    """What one supervisor reads and writes of its own job."""

    def __init__(self, store: Store, key: str, guid: str) -> None:
        self._store, self._key, self._guid = store, key, guid

    def claim(self) -> bool:
        """Makes this process the job's supervisor; False when the job has another or is gone."""
        with self._store.write() as db:
            return jobs.claim(db, self._key, self._guid, supervisor=process.own_identity())

    def is_open(self) -> bool:
        """Whether the job is still to be run or running, by this supervisor."""
        run = self._run()
        return run is not None and run.is_open

    def is_assigned(self) -> bool:
        """Whether the job has its nodes."""
        run = self._run()
        return run is not None and run.is_assigned

    def begin(self) -> bool:
        """The job runs from now on; False when it was told to stop before."""
        with self._store.write() as db:
            return jobs.begin(db, self._key, self._guid)

    def stop_reason(self, wakeup: int) -> str:
        """Why the job has to stop, or an empty string. Looks at signals first, at the store each time."""
        run = self._run()
        if run is None:
            return "the job was deleted"
        _drain(wakeup)
        return run.stop

    def finish(self, outcome: Outcome) -> None:
        """Writes the outcome and frees the nodes; a full disk does not stop it."""
        while True:
            try:
                with self._store.write() as db:
                    record(db, self._key, self._guid, outcome)
                return
            except StorageError:
                self._store.use_reserve()
                time.sleep(0.2)

    def _run(self) -> jobs.JobRow | None:
        with self._store.read() as db:
            return jobs.find_run(db, self._key, self._guid)


def record(db: Database, key: str, guid: str, outcome: Outcome) -> None:
    """Writes how a job ended, in an open transaction, and gives its nodes back."""
    if outcome.is_requeued:
        jobs.requeue(db, key, guid)
    else:
        jobs.end(db, key, guid, outcome)
    nodes.free(db, guid)


def _drain(wakeup: int) -> None:
    try:
        os.read(wakeup, 1024)
    except BlockingIOError:
        return
