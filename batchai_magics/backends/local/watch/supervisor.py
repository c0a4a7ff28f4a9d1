"""The one process that watches over one job; it outlives the kernel that submitted it.

Started with `HOME KEY GUID` in a session of its own, with the job's secrets as a line of JSON on its standard
input (the only place they ever are). It waits for its nodes, prepares them, starts the processes, and tells
the store how they ended; then it starts the next queued job, or runs it itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from batchai_magics.backends.folders.layout import JobLayout, Layout
from batchai_magics.backends.local.folders import mpi_segments, unmanaged_mounts
from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.backends.local.watch import detached_process, process
from batchai_magics.backends.local.watch.job_run import JobRun
from batchai_magics.backends.local.watch.job_secrets import JobSecrets
from batchai_magics.backends.local.watch.node_assignment import has_pending_work
from batchai_magics.backends.local.watch.outcome_writer import OutcomeWriter
from batchai_magics.backends.local.watch.shared_store import SharedStore
from batchai_magics.backends.node.outcome import Outcome, not_run, stopped
from batchai_magics.backends.node.ranks.signal_pipe import Bell

TAKE_OVER_S = 60.0  # so long after its start a process takes over jobs
POLL_S = 0.2  # between looks at the queue of a job that waits with its secrets in memory


def main() -> None:
    """Runs the job that the arguments name, and those that it hands its nodes to."""
    home, key, guid = sys.argv[1:4]
    message = sys.stdin.readline()
    if not message:  # it was started ahead of a job that does not need it
        return
    secrets = JobSecrets.from_message(json.loads(message))
    process.adopt_orphans()
    supervisor = Supervisor(Path(home))
    next_job = supervisor.watch(key, guid, secrets)
    del message, secrets
    while next_job:
        next_job = supervisor.take_over(next_job)


class Supervisor:
    """A process that runs one job, and short ones behind it: to start takes longer than they do.

    It does so for a while only, with the code that it has loaded, and never knows the secrets of two jobs.
    """

    def __init__(self, home: Path) -> None:
        self._layout = Layout(home)
        self._store = SharedStore(self._layout.database, may_make=False)
        self._bell = Bell()
        self._takes_over_until = time.monotonic() + TAKE_OVER_S

    def watch(self, key: str, guid: str, secrets: JobSecrets) -> JobRow | None:
        """Runs a job when it has its nodes; gives the next one, which is this process's to run."""
        job = self._layout.job(guid)
        writer = OutcomeWriter(self._store, key, guid, job)
        if not writer.claim():
            return None
        while self._waits_for_nodes(writer, job):
            is_again = self._run(job, writer, secrets) if writer.begin() else self._leave(job, writer)
            next_job = self._start_next(writer.next_job)
            if not (is_again and secrets):  # a job that is queued again keeps who knows its secrets
                return next_job
        return None

    def take_over(self, job: JobRow) -> JobRow | None:
        """The same for a job that has got its nodes from the one before."""
        detached_process.redirect_output(self._layout.job(job.guid).supervisor_log)
        return self.watch(job.key, job.guid, JobSecrets())

    def _waits_for_nodes(self, writer: OutcomeWriter, job: JobLayout) -> bool:
        """Waits for the nodes and the plan; False when the job was ended before."""
        while writer.is_open():
            is_assigned = writer.is_assigned()
            if is_assigned and job.plan.exists():
                return True
            if writer.is_abandoned() and writer.requeue():
                self._start_others()
            time.sleep(0.01 if is_assigned else POLL_S)
        return False

    def _run(self, job: JobLayout, writer: OutcomeWriter, secrets: JobSecrets) -> bool:
        """Runs the job and records its end; whether it is queued again."""
        may_leave_memory = True
        try:
            run = JobRun(job, writer, secrets, bell=self._bell)
            outcome = run.run()
            may_leave_memory = run.may_leave_memory
        except Exception as error:  # noqa: BLE001 whatever it was, the job must not stay "running"
            outcome = not_run(error)
        takes_next = not (outcome.is_requeued or secrets) and time.monotonic() < self._takes_over_until
        is_again = _finish(job, writer, outcome, takes_next=takes_next)
        process.reap()
        if may_leave_memory:
            mpi_segments.sweep()
        return is_again

    def _leave(self, job: JobLayout, writer: OutcomeWriter) -> bool:
        """Records the end of a job that was told to stop before it began; whether it is queued again."""
        reason = writer.stop_reason()
        return writer.is_open() and _finish(job, writer, stopped(reason))

    def _start_next(self, next_job: JobRow | None) -> JobRow | None:
        """Starts what can start now; gives the next_job if it is ready, and this process free to run it."""
        others = self._start_others()
        if next_job is None:
            return None
        from batchai_magics.backends.local.watch import scheduler

        if not scheduler.is_ready(self._store, self._layout, next_job):
            return None
        if not others:
            return next_job
        # They are below this process: a job that it runs could not tell them from its own.
        scheduler.start(self._store, self._layout, next_job, secrets=JobSecrets())
        return None

    def _start_others(self) -> list[subprocess.Popen[bytes]]:
        """Starts what needs no word of this job. The models take long: only if there may be any."""
        if not has_pending_work(self._store):
            unmanaged_mounts.sweep(self._store, self._layout)
            return []
        from batchai_magics.backends.local.watch import reconciler

        return reconciler.reconcile(self._store, self._layout)


def _finish(job: JobLayout, writer: OutcomeWriter, outcome: Outcome, *, takes_next: bool = False) -> bool:
    """Records how a job has ended; whether it is queued again."""
    if outcome.is_requeued:
        job.plan.unlink(missing_ok=True)  # other nodes, another plan
    writer.finish(outcome, takes_next=takes_next)
    return outcome.is_requeued
