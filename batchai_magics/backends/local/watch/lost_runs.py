"""Runs whose supervisor is gone: how they ended, before `reconcile` has recorded it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_end import read_end
from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.backends.local.state.store import Database
from batchai_magics.backends.local.watch import process, scheduler
from batchai_magics.backends.node import restarts
from batchai_magics.backends.node.outcome import REQUEUE, failed_with, stopped
from batchai_magics.backends.service.runner import RunStatus
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Plan
from batchai_magics.models.states import ExecutionState
from batchai_magics.untrusted_files import MAX_PLAN_BYTES, read_text


def with_lost(
    db: Database, layout: Layout, guids: Sequence[str], statuses: Sequence[RunStatus]
) -> list[RunStatus]:
    """The statuses of runs as the store has them, but of those without a live supervisor as they are."""
    asked = [guid for guid, status in zip(guids, statuses, strict=True) if status.is_open]
    lost = {job.guid: job for job in job_table.open_and_watched(db, asked) if not is_watched(job)}
    return [
        _without_supervisor(layout, lost[guid], status) if guid in lost else status
        for guid, status in zip(guids, statuses, strict=True)
    ]


def is_watched(job: JobRow) -> bool:
    """Whether the supervisor of a run is alive, or the process that is about to start it."""
    return process.is_alive(job.supervisor or job.spawner)


def _without_supervisor(layout: Layout, job: JobRow, status: RunStatus) -> RunStatus:
    end = end_of(layout, job)
    if end.is_requeued:
        return replace(status, state=ExecutionState.QUEUED, nodes=())
    recorded = end._replace(errors=(*end.errors, *end.warnings), warnings=())  # as the store has them
    of_end = RunStatus.of_end(end, status.started or end.ended, status.attempts)
    return replace(of_end, result=recorded)


def end_of(layout: Layout, job: JobRow) -> Outcome:
    """How and when an open run without a supervisor ended; or that it is queued again."""
    end = read_end(layout.job(job.guid).end)
    if end and job.state is not ExecutionState.QUEUED:  # written to the folder, but not to the store
        return end
    return _lost_outcome(layout, job)._replace(ended=time.time())


def _lost_outcome(layout: Layout, job: JobRow) -> Outcome:
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
        plan = Plan.from_json(read_text(layout.job(job.guid).submitted, MAX_PLAN_BYTES))
    except (OSError, ValueError):  # its folder is damaged
        return lost
    return restarts.continued(lost, plan, len(job.attempts))


def _silent_end(supervisor: str) -> str:
    """What is known about a supervisor that exited without reporting a status."""
    if process.is_of_another_boot(supervisor):
        return "The machine was restarted before the job began"
    who = f"The job's supervisor (process {process.pid_of(supervisor)})"
    return f"{who} exited without a message before the job started: it was killed, or memory ran out"
