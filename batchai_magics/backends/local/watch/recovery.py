"""After a crash: jobs whose supervisor is gone get an honest end, and their processes with them."""

from __future__ import annotations

from batchai_magics.backends.local.folders.layout import Layout
from batchai_magics.backends.local.state import jobs
from batchai_magics.backends.local.state.jobs import JobRow
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import process, scheduler
from batchai_magics.backends.local.watch.verdict import record
from batchai_magics.backends.node import registry
from batchai_magics.backends.node.outcome import REQUEUE, Outcome, failed_with, stopped
from batchai_magics.models.states import ExecutionState


def recover(store: Store, layout: Layout) -> bool:
    """Finds open jobs that nobody watches over and ends or re-queues them; True when there were any."""
    with store.read() as db:
        watched = jobs.open_and_watched(db)
    orphans = [job for job in watched if not _is_watched(job)]
    for job in orphans:
        _settle(store, layout, job)
    return bool(orphans)


def _is_watched(job: JobRow) -> bool:
    return process.is_alive(job.supervisor or job.spawner)


def _settle(store: Store, layout: Layout, job: JobRow) -> None:
    process.kill(lambda: process.marked(job.guid))
    registry.forget(layout.job(job.guid).registry)
    with store.write() as db:
        now = jobs.find_open(db, guid=job.guid)
        if now is None or now.supervisor != job.supervisor or _is_watched(now):
            return  # it ended, or somebody else took it, while we looked
        record(db, job.key, job.guid, _outcome(layout, now))


def _outcome(layout: Layout, job: JobRow) -> Outcome:
    if job.stop:
        return stopped(job.stop)
    if job.state is not ExecutionState.QUEUED:
        text = "The process that watched over the job disappeared (killed, or the machine was restarted)"
        return failed_with("JobSupervisorLost", text)
    tail = scheduler.supervisor_tail(layout, job.guid)
    if job.needs_secrets and not tail:
        text = "The process that held its secrets disappeared while the job was queued; they were never saved"
        return failed_with("JobSecretsLost", f"{text}: submit it again")
    if not job.supervisor:
        return stopped(REQUEUE)  # whoever gave it its nodes died before starting it
    return failed_with("JobLaunchFailed", f"The job's supervisor could not start: {tail or 'no message'}")
