"""Crash recovery: ends or requeues jobs whose supervisor is gone, and ends their processes."""

from __future__ import annotations

import time

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_end import RunEnd
from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.local.watch import process, scheduler
from batchai_magics.backends.local.watch.outcome_writer import write_outcome
from batchai_magics.backends.local.watch.plan_binding import SubmittedRun
from batchai_magics.backends.node import image_registry, restarts
from batchai_magics.backends.node.outcome import REQUEUE, Outcome, failed_with, stopped
from batchai_magics.models.states import ExecutionState

OVERDUE_S = 15.0  # a supervisor that has not ended a terminating job by then is killed


def recover(store: Store, layout: Layout) -> bool:
    """Ends or requeues open jobs without a live supervisor; True if there were any.

    Supervisors that are overdue in ending their job (hung, or stopped by SIGSTOP) are killed first.
    """
    with store.read() as db:
        watched = job_table.open_and_watched(db)
    for job in watched:
        if _is_overdue(job):
            process.kill_one(job.supervisor)
    orphans = [job for job in watched if not _is_watched(job)]
    for job in orphans:
        _recover_job(store, layout, job)
    return bool(orphans)


def _is_overdue(job: JobRow) -> bool:
    return job.state is ExecutionState.TERMINATING and time.time() - job.changed > OVERDUE_S


def _is_watched(job: JobRow) -> bool:
    return process.is_alive(job.supervisor or job.spawner)


def _recover_job(store: Store, layout: Layout, job: JobRow) -> None:
    process.kill(lambda: process.marked(job.guid))
    image_registry.delete_credentials(layout.job(job.guid).registry)
    store.insist(lambda db: _end(db, layout, job))


def _end(db: Database, layout: Layout, job: JobRow) -> None:
    now = job_table.find_open(db, guid=job.guid)
    if now is None or now.supervisor != job.supervisor or _is_watched(now):
        return  # it has ended or has another supervisor meanwhile
    end = RunEnd.read(layout.job(job.guid).end)
    if end and now.state is not ExecutionState.QUEUED:  # written to the folder, but not to the store
        write_outcome(db, job.key, job.guid, end.outcome, ended=end.ended)
    else:
        outcome = _outcome(layout, now)
        if outcome.is_requeued:
            layout.job(job.guid).plan.unlink(missing_ok=True)  # the next attempt has other nodes
        write_outcome(db, job.key, job.guid, outcome)


def _outcome(layout: Layout, job: JobRow) -> Outcome:
    if job.stop:
        return stopped(job.stop)
    if job.state is not ExecutionState.QUEUED:
        text = "The job's supervisor disappeared (killed, or the machine was restarted)"
        lost = failed_with("JobSupervisorLost", text)
        return lost if job.needs_secrets else _continued(layout, job, lost)
    tail = scheduler.supervisor_tail(layout, job.guid)
    if job.needs_secrets and not tail:
        text = "The process that held its secrets disappeared while the job was queued; they were never saved"
        return failed_with("JobSecretsLost", f"{text}: submit it again")
    if not job.supervisor:
        return stopped(REQUEUE)  # the process that assigned the nodes died before starting it
    if tail:
        return failed_with("JobLaunchFailed", f"The job's supervisor could not start: {tail}")
    return failed_with(
        "JobLaunchFailed", f"{_silent_end(job.supervisor)}; nothing of it ran: submit it again"
    )


def _continued(layout: Layout, job: JobRow, lost: Outcome) -> Outcome:
    """The outcome of a job that lost its supervisor: a requeue if it has restarts left."""
    try:
        plan = SubmittedRun.read(layout.job(job.guid).submitted).plan
    except (OSError, ValueError, KeyError):  # its folder is damaged, or another version wrote it
        return lost
    return restarts.continued(lost, plan, len(job.attempts))


def _silent_end(supervisor: str) -> str:
    """What is known about a supervisor that exited without reporting a status."""
    if process.is_of_another_boot(supervisor):
        return "The machine was restarted before the job began"
    who = f"The job's supervisor (process {process.pid_of(supervisor)})"
    return f"{who} exited without a message before the job started: it was killed, or memory ran out"
