"""What a supervisor records in the store about its job: ownership, start and outcome."""

from __future__ import annotations

import contextlib
import time

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.run_end import write_end
from batchai_magics.backends.local.state import job_table, node_table
from batchai_magics.backends.local.state.job_table import Attempts
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.local.watch import node_allocation, process
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.errors import StorageError, is_disk_full
from batchai_magics.launch.outcome import Outcome
from batchai_magics.models.states import ExecutionState

FINISH_S = 60.0  # how long to retry the store; the job's folder has the outcome by then
RETRY_S = 0.2


class OutcomeWriter:
    """Reads and writes the row of one supervised run.

    While the store is unreadable, the last row read is used; a missing job folder means the job was deleted.
    `next_job` is the queued job whose nodes were assigned to this process when the previous one finished.
    """

    def __init__(self, store: Store, key: str, guid: str, job: JobLayout) -> None:
        self._store, self._key, self._guid, self._job = store, key, guid, job
        self._last: job_table.JobRow | None = None
        self.next_job: job_table.JobRow | None = None

    def claim(self) -> bool:
        """Makes this process the job's supervisor; False if it has another one or is gone."""
        own = process.own_identity()
        with self._store.write() as db:
            is_ours = job_table.claim(db, self._key, self._guid, supervisor=own)
        if is_ours:
            with (
                contextlib.suppress(OSError),
                open(self._job.supervisor, "w", opener=private_files.opener) as file,
            ):
                file.write(own)  # read when a lost store is rebuilt
        return is_ours

    def is_open(self) -> bool:
        """Whether the run is queued or running."""
        run = self._run()
        return run is not None and run.is_open

    def is_assigned(self) -> bool:
        """Whether nodes are assigned to the job."""
        run = self._run()
        return run is not None and run.is_assigned

    def begin(self) -> bool:
        """Marks the job as running; False if it was told to stop first."""
        return self._store.insist(
            lambda db: job_table.begin(db, self._key, self._guid, node_table.ids_of_run(db, self._guid))
        )

    def warn(self, text: str) -> None:
        """Records a warning about the run while it runs; if that fails, the outcome still has it."""
        error = Outcome(None).with_watch_notes([text]).warnings
        with contextlib.suppress(StorageError), self._store.write() as db:
            job_table.warn(db, self._key, self._guid, error)

    def note_ending(self) -> None:
        """Records that the processes of the run have been told to end, if the disk has room for it."""
        if self._last and self._last.state is ExecutionState.TERMINATING:  # as a user's request has it
            return
        with contextlib.suppress(StorageError), self._store.write() as db:
            job_table.set_terminating(db, self._key)

    @property
    def attempts(self) -> Attempts:
        """The attempts of the job, the current one last."""
        run = self._run()
        return run.attempts if run else ()

    def ask_to_stop(self, reason: str) -> None:
        """Asks the run to stop; if that fails, it ends all the same."""
        with contextlib.suppress(StorageError):
            self._store.insist(lambda db: job_table.ask_run_to_stop(db, self._guid, reason))

    def stop_reason(self) -> str:
        """Why the job has to stop; empty if it need not."""
        run = self._run()
        return "the job was deleted" if run is None else run.stop

    @property
    def requeue_reason(self) -> str:
        """Why the job is to be queued again, as of the last read."""
        return self._last.again if self._last else ""

    def finish(self, outcome: Outcome, *, takes_next: bool = False) -> None:
        """Writes the outcome and releases the nodes, even on a full disk.

        The outcome goes to the job's folder first. If the store fails for a minute, or this process gets
        SIGTERM meanwhile, recovery reads it from there.

        Args:
            outcome: How the job ended.
            takes_next: Whether to assign nodes to the next job, for this process, in the same transaction.
        """
        outcome = outcome._replace(ended=time.time())
        self._write_end(outcome)
        if self._is_recorded(outcome, takes_next=takes_next):
            return
        with process.ended_by_signals():
            deadline = time.monotonic() + FINISH_S
            while self._job.root.exists() and time.monotonic() < deadline:
                time.sleep(RETRY_S)
                if self._is_recorded(outcome, takes_next=takes_next):
                    return

    def _write_end(self, outcome: Outcome) -> None:
        if outcome.is_requeued:
            return
        while True:
            try:
                return write_end(self._job.end, outcome)
            except OSError as error:
                if not is_disk_full(error) or not self._store.reserve.release_slice():
                    return  # the store is tried all the same

    def _is_recorded(self, outcome: Outcome, *, takes_next: bool) -> bool:
        try:
            self.next_job = self._store.insist(lambda db: self._hand_over(db, outcome, takes_next=takes_next))
        except StorageError:
            return False
        self._store.reserve.refill()
        return True

    def _hand_over(self, db: Database, outcome: Outcome, *, takes_next: bool) -> job_table.JobRow | None:
        run = job_table.find_run(db, self._key, self._guid)
        write_outcome(db, self._key, self._guid, outcome)
        return node_allocation.hand_over_nodes(db, run) if run and takes_next else None

    def _run(self) -> job_table.JobRow | None:
        try:
            with self._store.read() as db:
                self._last = job_table.find_run(db, self._key, self._guid)
        except StorageError:
            if not self._job.root.exists():
                return None
        return self._last


def write_outcome(db: Database, key: str, guid: str, outcome: Outcome) -> None:
    """Writes how and when a job ended, in an open transaction, and releases its nodes."""
    if outcome.is_requeued:
        job_table.requeue(db, key, guid, outcome.reason)
    else:
        job_table.end(db, key, guid, outcome)
        job_table.release_dependents(db, guid, is_success=outcome.is_success)
    node_table.release(db, guid)
