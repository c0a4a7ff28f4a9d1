"""The supervisor process of a job; it outlives the kernel that submitted the job.

Started with `HOME KEY GUID` in its own session, with the job's secrets as a JSON line on standard input (they
are written nowhere). It waits for nodes, prepares them, starts the ranks and records the outcome; then it
starts the next queued job, or runs it itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from batchai_magics.backends.folders.layout import JobLayout, Layout
from batchai_magics.backends.local import unmanaged_mounts
from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.backends.local.watch import detached_process, process
from batchai_magics.backends.local.watch.attempt_launcher import LocalLauncher, LocalReport
from batchai_magics.backends.local.watch.detached_process import JobSecrets, SharedStore
from batchai_magics.backends.local.watch.node_allocation import has_pending_work
from batchai_magics.backends.local.watch.outcome_writer import OutcomeWriter
from batchai_magics.backends.node.attempt import AttemptRunner
from batchai_magics.backends.node.outcome import not_run, stopped
from batchai_magics.backends.node.ranks import leftovers, termination
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.launch.outcome import Outcome
from batchai_magics.records.record_files import TRIAL

TAKE_OVER_S = 60.0  # how long after its start a supervisor takes further jobs
POLL_S = 0.2  # polling interval of a queued job whose secrets are held here


def main() -> None:
    """Runs the job that the arguments name, then the jobs that take over its nodes."""
    home, key, guid = sys.argv[1:4]
    message = sys.stdin.readline()
    if not message:  # preloaded for a job that did not start
        return
    secrets = JobSecrets.from_message(json.loads(message))
    termination.adopt_orphans()
    supervisor = Supervisor(Path(home))
    next_job = supervisor.watch(key, guid, secrets)
    del message, secrets
    while next_job:
        next_job = supervisor.take_over(next_job)


class Supervisor:
    """Runs one job, and short jobs queued behind it, which saves the startup time of a process each.

    It stops taking jobs after a while, since its code may be outdated, and never holds two jobs' secrets.
    """

    def __init__(self, home: Path) -> None:
        self._layout = Layout(home)
        self._store = SharedStore(self._layout.database, may_make=False)
        self._signal_pipe = SignalPipe()
        self._takes_over_until = time.monotonic() + TAKE_OVER_S

    def watch(self, key: str, guid: str, secrets: JobSecrets) -> JobRow | None:
        """Runs a job once its nodes are assigned; returns the next job for this process."""
        job = self._layout.job(guid)
        writer = OutcomeWriter(self._store, key, guid, job)
        if not writer.claim():
            return None
        while self._waits_for_nodes(writer, job):
            is_again = self._run(job, writer, secrets) if writer.begin() else self._leave(job, writer)
            others = [*self._start_sender(job, secrets), *self._start_sweep_step(job)]
            next_job = self._start_next(writer.next_job, others)
            if not (is_again and secrets):  # only this process has the secrets of the requeued job
                return next_job
        return None

    def take_over(self, job: JobRow) -> JobRow | None:
        """Like `watch`, for a job that takes over the nodes of the previous one."""
        detached_process.redirect_output(self._layout.job(job.guid).supervisor_log)
        return self.watch(job.key, job.guid, JobSecrets())

    def _waits_for_nodes(self, writer: OutcomeWriter, job: JobLayout) -> bool:
        """Waits for the nodes and the plan; False if the job ends first."""
        while writer.is_open():
            is_assigned = writer.is_assigned()
            if is_assigned and job.plan.exists():
                return True
            if writer.is_abandoned() and writer.requeue():
                self._start_others()
            time.sleep(0.01 if is_assigned else POLL_S)
        return False

    def _run(self, job: JobLayout, writer: OutcomeWriter, secrets: JobSecrets) -> bool:
        """Runs the job and records its outcome; True if it is requeued."""
        may_leave_memory = True
        try:
            launcher = LocalLauncher(job, writer.attempts, secrets, self._signal_pipe)
            report = LocalReport(job, writer, launcher.plan.limits)
            outcome = AttemptRunner(launcher.plan, launcher, report).run()
            may_leave_memory = launcher.may_leave_memory
        except Exception as error:  # noqa: BLE001 whatever happened, the job must not stay "running"
            outcome = not_run(error)
        takes_next = not (outcome.is_requeued or secrets) and time.monotonic() < self._takes_over_until
        is_again = _finish(job, writer, outcome, takes_next=takes_next)
        process.reap()
        if may_leave_memory:
            leftovers.sweep_segments()
        return is_again

    def _leave(self, job: JobLayout, writer: OutcomeWriter) -> bool:
        """Records that a job was stopped before it started; True if it is requeued."""
        reason = writer.stop_reason()
        return writer.is_open() and _finish(job, writer, stopped(reason))

    def _start_sender(self, job: JobLayout, secrets: JobSecrets) -> list[subprocess.Popen[bytes]]:
        """Starts the process that delivers notifications, if the run has any."""
        if not (self._layout.outboxes / job.root.name).exists():
            return []
        from batchai_magics.backends.local.watch import notification_sender

        return notification_sender.start(job, secrets.variables)

    def _start_sweep_step(self, job: JobLayout) -> list[subprocess.Popen[bytes]]:
        """Starts the process that takes the next step of the sweep whose trial has ended, if it needs one."""
        file = job.records / TRIAL
        if not file.exists():
            return []
        from batchai_magics.backends.local.watch import sweep_step

        return sweep_step.start(self._store, job)

    def _start_next(self, next_job: JobRow | None, started: list[subprocess.Popen[bytes]]) -> JobRow | None:
        """Starts pending work; returns the next job if it is ready and this process can run it."""
        others = [*started, *self._start_others()]
        if next_job is None:
            return None
        from batchai_magics.backends.local.watch import scheduler

        if not scheduler.is_ready(self._store, self._layout, next_job):
            return None
        if not others:
            return next_job
        # The others are children of this process: a job running here could not tell them from its own.
        scheduler.start(self._store, self._layout, next_job, secrets=JobSecrets())
        return None

    def _start_others(self) -> list[subprocess.Popen[bytes]]:
        """Starts other pending work. Loading the models is slow, so checks first that there may be any."""
        if not has_pending_work(self._store):
            unmanaged_mounts.sweep(self._store, self._layout)
            return []
        from batchai_magics.backends.local.watch import reconciler

        return reconciler.reconcile(self._store, self._layout)


def _finish(job: JobLayout, writer: OutcomeWriter, outcome: Outcome, *, takes_next: bool = False) -> bool:
    """Records how a job ended; True if it is requeued."""
    if outcome.is_requeued:
        job.plan.unlink(missing_ok=True)  # the next attempt has other nodes
    writer.finish(outcome, takes_next=takes_next)
    if not outcome.is_requeued:  # only now: another attempt needs it if this program is killed before
        job.environment.unlink(missing_ok=True)
    return outcome.is_requeued
