"""Reconciliation without a daemon: writers, the follow loop and each command run a pass; reading does not.

Jobs whose supervisor is gone end or are queued again, and their processes are killed. Until a pass has
recorded that, readers are told what it will record.
"""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_end import read_end
from batchai_magics.backends.local import unmanaged_mounts
from batchai_magics.backends.local.state import job_table, node_table
from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.backends.local.state.node_table import NewNode
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.local.watch import (
    detached_process,
    node_allocation,
    process,
    scheduler,
)
from batchai_magics.backends.local.watch.detached_process import Secrets
from batchai_magics.backends.local.watch.node_allocation import has_pending_work
from batchai_magics.backends.local.watch.outcome_writer import write_outcome
from batchai_magics.backends.node import containers, requirements, restarts
from batchai_magics.backends.node.outcome import REQUEUE, failed_with, stopped
from batchai_magics.backends.node.ranks import temporary_folder, termination
from batchai_magics.backends.service.runner import RunStatus
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import GRACE_S, Plan, PlanError
from batchai_magics.launch.references import Bindings
from batchai_magics.models.states import ExecutionState
from batchai_magics.untrusted_files import MAX_PLAN_BYTES, read_text

OVERDUE_S = 15.0  # a supervisor that has not ended a terminating job so long after its grace is killed


def recover_jobs(store: Store, layout: Layout) -> bool:
    """Ends or requeues open jobs without a live supervisor; True if there were any.

    Jobs that wait for one which was deleted meanwhile end, too.

    Supervisors that are overdue in ending their job (hung, or stopped by SIGSTOP) are killed first.
    """
    with store.read() as db:
        watched = job_table.open_and_watched(db)
        is_waiting_for_lost = bool(job_table.lost_predecessors(db))
    if is_waiting_for_lost:
        store.insist(job_table.end_dependents_of_lost)
    for job in watched:
        since_s = time.time() - job.changed - OVERDUE_S
        if job.state is ExecutionState.TERMINATING and since_s > 0 and since_s > _grace_s(layout, job):
            process.kill_one(job.supervisor)
    orphans = [job for job in watched if not is_watched(job)]
    for job in orphans:
        _recover_job(store, layout, job)
    if orphans:
        temporary_folder.sweep()
    return bool(orphans) or is_waiting_for_lost


def _grace_s(layout: Layout, job: JobRow) -> float:
    """How long the processes of a job may take to end."""
    try:
        return Plan.read(str(layout.job(job.guid).plan)).limits.grace_s
    except (OSError, PlanError):  # nothing of it runs yet, or its folder is damaged
        return GRACE_S


def _recover_job(store: Store, layout: Layout, job: JobRow) -> None:
    termination.kill(lambda: process.marked(job.guid))
    containers.delete_credentials(layout.job(job.guid).registry)
    store.insist(lambda db: _end_job(db, layout, job))


def _end_job(db: Database, layout: Layout, job: JobRow) -> None:
    now = job_table.find_open(db, job.guid)
    if now is None or now.supervisor != job.supervisor or is_watched(now):
        return  # it has ended or has another supervisor meanwhile
    end = end_of(layout, now)
    if end.is_requeued:
        layout.job(job.guid).plan.unlink(missing_ok=True)  # the next attempt has other nodes
    else:
        layout.job(job.guid).environment.unlink(missing_ok=True)
    write_outcome(db, job.key, job.guid, end)


class Reconciler:
    """Reconciles a store and its folders with the processes and nodes that exist."""

    def __init__(self, store: Store, layout: Layout) -> None:
        self.store = store
        self.layout = layout
        self._started: list[subprocess.Popen[bytes]] = []
        self._lock = threading.RLock()
        self._reconciled_s = -math.inf

    def reconcile(
        self, *, is_due: bool = False, secrets: Secrets | None = None, max_age_s: float = 0.0
    ) -> bool:
        """Runs one pass: reaps, recovers, prepares nodes, starts jobs; False if there was none.

        Args:
            is_due: Whether to start what can start even if the store shows no pending work.
            secrets: Secrets of a resource that has just been created.
            max_age_s: Skips the pass if another one began in this process less than this long before the
                call; concurrent callers share one pass. On a read-only disk there is no pass.
        """
        asked_s = time.monotonic()
        self.store.leave_snapshot()  # others need the store while this thread waits
        with self._lock:
            if self._reconciled_s > asked_s - max_age_s and not is_due:
                return False
            self.reap()
            if self.store.is_read_only:
                return False
            self._reconciled_s = time.monotonic()
            try:
                self.store.reserve.refill()
                self._started += reconcile_if_due(self.store, self.layout, is_due=is_due, secrets=secrets)
            except BaseException:
                self._reconciled_s = -math.inf  # callers that wait for the lock retry
                raise
        return True

    def reap(self) -> int:
        """Reaps supervisors that have exited; returns how many children of this process still run."""
        self.store.leave_snapshot()
        with self._lock:
            self._started = [child for child in self._started if child.poll() is None]
            return len(self._started)


def reconcile_if_due(
    store: Store, layout: Layout, *, is_due: bool = False, secrets: Secrets | None = None
) -> list[subprocess.Popen[bytes]]:
    """Recovers orphaned jobs, then reconciles if anything is pending; returns the processes it started."""
    is_recovered, started = recover_jobs(store, layout), list[subprocess.Popen[bytes]]()
    if layout.outboxes.exists():  # notifications whose sender died or could not deliver them
        from batchai_magics.backends.local.watch import notification_sender  # few homes need it

        started += notification_sender.start_missing(store, layout)
    if is_recovered or is_due or has_pending_work(store):
        started += reconcile(store, layout, secrets)
    return started


def reconcile(store: Store, layout: Layout, secrets: Secrets | None = None) -> list[subprocess.Popen[bytes]]:
    """Scales, prepares nodes, starts jobs, unmounts; returns the processes it started, for reaping."""
    secrets = secrets or Secrets()
    node_allocation.adjust(store)
    started = prepare_nodes(store, layout, secrets=secrets.setup)
    started += scheduler.schedule(store, layout, secrets=secrets.jobs)
    unmanaged_mounts.sweep(store, layout)
    return started


def prepare_nodes(
    store: Store, layout: Layout, *, secrets: Mapping[str, str] | None = None
) -> list[subprocess.Popen[bytes]]:
    """Prepares every new node; returns the processes that run mount commands and setup tasks."""
    with store.read() as db:
        new = node_table.preparing(db)
    return [child for node in new for child in _prepare_node(store, layout, node, secrets or {})]


def _prepare_node(
    store: Store, layout: Layout, node: NewNode, secrets: Mapping[str, str]
) -> list[subprocess.Popen[bytes]]:
    private_files.make_folder(layout.tmpdir(node.guid, node.id))
    try:
        text = read_text(layout.cluster_setup(node.guid), MAX_PLAN_BYTES)
        setup = Plan.from_json(text) if text else None
    except (OSError, ValueError) as error:
        finish_preparation(store, node.id, f"How to set it up cannot be read: {error}")
        return []
    if not setup:
        finish_preparation(store, node.id, "")
    elif not node.preparer:
        return _start_preparer(store, layout, node, setup, secrets)
    elif not process.is_alive(node.preparer):
        finish_preparation(store, node.id, "The process that prepared the node disappeared")
    return []


def finish_preparation(store: Store, node: str, problem: str) -> None:
    """Records that a node is ready, or why it is unusable."""
    with store.write() as db:
        node_table.finish_preparation(db, node, problem)


def _start_preparer(
    store: Store, layout: Layout, node: NewNode, setup: Plan, secrets: Mapping[str, str]
) -> list[subprocess.Popen[bytes]]:
    plan = requirements.run_elevated(setup.resolved(Bindings([node.id])))
    missing = [name for name in plan.secrets if name not in secrets]
    if missing:
        text = f"The setup task's secrets ({', '.join(missing)}) are not stored: create the cluster again"
        finish_preparation(store, node.id, text)
        return []
    folder = layout.node(node.guid, node.id)
    try:
        (folder / "exits").mkdir(exist_ok=True, mode=private_files.FOLDER)
        plan.write(str(layout.setup(node.guid, node.id)))
    except FileNotFoundError:  # the node was removed meanwhile
        return []
    program = detached_process.Program(
        "node_preparer", (str(layout.home), node.id), sys.executable, folder / "log"
    )
    with store.write() as db:
        is_ours = node_table.claim(db, node.id, process.own_identity())
    if not is_ours:
        return []
    child = detached_process.start(program, secrets=secrets)
    with store.write() as db:
        node_table.set_preparer(db, node.id, process.identity(child.pid))
    return [child]


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
