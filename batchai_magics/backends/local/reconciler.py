"""Reconciliation without a daemon: writers, the follow loop and each command run a pass; reading does not.

Jobs whose supervisor is gone end or are queued again, and their processes are killed. Nodes are prepared, and
jobs that have got theirs are started; a job with secrets gets its supervisor before its nodes, since that
process holds the secrets.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator, Mapping

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_end import read_end
from batchai_magics.backends.local import process, scheduler, unmanaged_mounts
from batchai_magics.backends.local.process import Secrets
from batchai_magics.backends.local.state import job_table, node_table
from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.backends.local.state.node_table import NodeRow
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.node import containers, requirements, restarts
from batchai_magics.backends.node.outcome import REQUEUE, failed_with, launch_failure, stop_outcome
from batchai_magics.backends.node.ranks import temporary_folder, termination
from batchai_magics.errors import ServiceError, StorageError
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import GRACE_S, Plan, PlanError
from batchai_magics.launch.references import Bindings
from batchai_magics.models.states import ExecutionState
from batchai_magics.untrusted_files import MAX_PLAN_BYTES, read_text, tail_of

OVERDUE_S = 15.0  # after the grace of a terminating job, until a supervisor that hangs is killed
Children = list[subprocess.Popen[bytes]]  # what was started, for reaping
NO_SECRETS: Mapping[str, Secrets] = {}  # by the guids of jobs and clusters
_NONE = Secrets()


def reconcile_if_due(
    store: Store, layout: Layout, *, is_due: bool = False, secrets: Mapping[str, Secrets] = NO_SECRETS
) -> Children:
    """Recovers orphaned jobs, then reconciles if anything is pending or `is_due`."""
    is_recovered, started = recover_jobs(store, layout), Children()
    if layout.outboxes.exists():  # notifications whose sender died or could not deliver them
        from batchai_magics.backends.local import notification_sender  # few homes need it

        started += notification_sender.start_missing(store, layout)
    if is_recovered or is_due or scheduler.has_pending_work(store):
        started += reconcile(store, layout, secrets)
    return started


def reconcile(store: Store, layout: Layout, secrets: Mapping[str, Secrets] = NO_SECRETS) -> Children:
    """Scales, prepares nodes, starts jobs, unmounts; `secrets` of new jobs and clusters are by guid."""
    scheduler.adjust(store)
    started = prepare_nodes(store, layout, secrets)
    started += start_jobs(store, layout, secrets)
    unmanaged_mounts.sweep(store, layout)
    return started


# -- jobs whose supervisor is gone


def recover_jobs(store: Store, layout: Layout) -> bool:
    """Ends or requeues open jobs without a live supervisor; True if there were any.

    Jobs that wait for one which was deleted meanwhile end, too. Supervisors that are overdue in ending their
    job (hung, or stopped by SIGSTOP) are killed first.
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


def is_watched(job: JobRow) -> bool:
    """Whether the supervisor of a run is alive, or the process that is about to start it."""
    return process.is_alive(job.supervisor or job.spawner)


def _recover_job(store: Store, layout: Layout, job: JobRow) -> None:
    termination.kill(lambda: process.marked(job.guid))
    containers.delete_credentials(layout.job(job.guid).registry)
    store.insist(lambda db: _end_orphan(db, layout, job))


def _end_orphan(db: Database, layout: Layout, job: JobRow) -> None:
    now = job_table.find_open(db, job.guid)
    if now is None or now.supervisor != job.supervisor or is_watched(now):
        return  # it has ended or has another supervisor meanwhile
    end = end_of(layout, now)
    if end.is_requeued:
        layout.job(job.guid).plan.unlink(missing_ok=True)  # the next attempt has other nodes
    else:
        layout.job(job.guid).environment.unlink(missing_ok=True)
    scheduler.record_end(db, job.guid, end)


def end_of(layout: Layout, job: JobRow) -> Outcome:
    """How and when an open run without a supervisor ended; or that it is queued again."""
    end = read_end(layout.job(job.guid).end)
    if end and job.state is not ExecutionState.QUEUED:  # written to the folder, but not to the store
        return end
    return _lost_outcome(layout, job)._replace(ended=time.time())


def _lost_outcome(layout: Layout, job: JobRow) -> Outcome:
    if job.stop:
        return stop_outcome(job.stop)
    if job.state is not ExecutionState.QUEUED:
        text = "The job's supervisor disappeared (killed, or the machine was restarted)"
        lost = failed_with("JobSupervisorLost", text)
        return lost if job.needs_secrets else _continued(layout, job, lost)
    tail = _supervisor_tail(layout, job.guid)
    if job.needs_secrets and not tail:
        text = "The process that held its secrets disappeared while the job was queued; they were never saved"
        return failed_with("JobSecretsLost", f"{text}: submit it again")
    if not job.supervisor:
        return stop_outcome(REQUEUE)  # the process that assigned the nodes died before starting it
    if tail:
        return failed_with("JobLaunchFailed", f"The job's supervisor could not start: {tail}")
    who = f"The job's supervisor (process {process.pid_of(job.supervisor)})"
    text = f"{who} exited without a message before the job started: it was killed, the machine was restarted"
    return failed_with("JobLaunchFailed", f"{text}, or memory ran out; nothing of it ran: submit it again")


def _continued(layout: Layout, job: JobRow, lost: Outcome) -> Outcome:
    """The outcome of a job that lost its supervisor: a requeue if it has restarts left."""
    try:
        plan = Plan.from_json(read_text(layout.job(job.guid).submitted, MAX_PLAN_BYTES))
    except (OSError, ValueError):  # its folder is damaged
        return lost
    return restarts.with_restart(lost, plan, len(job.attempts))


def _supervisor_tail(layout: Layout, guid: str) -> str:
    """The last line a dead supervisor logged, for the error message."""
    try:
        text = tail_of(layout.job(guid).supervisor_log)
    except OSError:
        return ""
    return text.strip().rpartition("\n")[2]


# -- new nodes


def prepare_nodes(store: Store, layout: Layout, secrets: Mapping[str, Secrets] = NO_SECRETS) -> Children:
    """Prepares every new node; returns the processes that run mount commands and setup tasks."""
    with store.read() as db:
        new = node_table.preparing(db)
    return [child for node in new for child in _prepare_node(store, layout, node, secrets)]


def _prepare_node(store: Store, layout: Layout, node: NodeRow, secrets: Mapping[str, Secrets]) -> Children:
    private_files.make_folder(layout.tmpdir(node.cluster, node.id))
    try:
        text = read_text(layout.cluster_setup(node.cluster), MAX_PLAN_BYTES)
        setup = Plan.from_json(text) if text else None
    except (OSError, ValueError) as error:
        finish_preparation(store, node.id, f"How to set it up cannot be read: {error}")
        return []
    held = secrets.get(node.cluster, _NONE).variables
    if not setup:
        finish_preparation(store, node.id, "")
    elif held or not node.preparer:
        return _start_preparer(store, layout, node, setup, held)
    elif not process.is_alive(node.preparer):
        finish_preparation(store, node.id, "The process that prepared the node disappeared")
    return []


def finish_preparation(store: Store, node: str, problem: str) -> None:
    """Records that a node is ready, or why it is unusable."""
    with store.write() as db:
        node_table.finish_preparation(db, node, problem)


def _start_preparer(
    store: Store, layout: Layout, node: NodeRow, setup: Plan, secrets: Mapping[str, str]
) -> Children:
    plan = requirements.run_elevated(setup.resolved(Bindings([node.id])))
    missing = [name for name in plan.secrets if name not in secrets]
    if missing:
        text = f"The setup task's secrets ({', '.join(missing)}) are not stored: create the cluster again"
        finish_preparation(store, node.id, text)
        return []
    folder = layout.node(node.cluster, node.id)
    try:
        (folder / "exits").mkdir(exist_ok=True, mode=private_files.FOLDER)
        plan.write(str(layout.setup(node.cluster, node.id)))
    except FileNotFoundError:  # the node was removed meanwhile
        return []
    with store.write() as db:
        is_ours = node_table.claim(db, node, process.own_identity())
    if not is_ours:
        return []
    arguments = str(layout.home), node.id
    child = process.start("node_preparer", arguments, log=folder / "log", secrets=secrets)
    with store.write() as db:
        node_table.set_preparer(db, node.id, process.identity(child.pid))
    return [child]


# -- jobs that can start


def start_jobs(store: Store, layout: Layout, secrets: Mapping[str, Secrets] = NO_SECRETS) -> Children:
    """Starts the supervisors of new jobs with secrets, and of all jobs that can get nodes.

    Raises:
        ServiceError: A new job's supervisor cannot be started; the job was not created.
    """
    with store.read() as db:
        new = [job for guid in secrets if secrets[guid] and (job := job_table.find_open(db, guid))]
    started = Children()
    for job in new:  # nodes are assigned once those have supervisors
        started += start(store, layout, job, secrets[job.guid])
    for job in scheduler.assign_all(store):
        if not job.supervisor:  # recovery handles one that died
            started += start(store, layout, job)
    return started


@contextlib.contextmanager
def release_on_interrupt(store: Store, guid: str = "") -> Iterator[None]:
    """Gives up this process's claims as spawner if the block raises, such as on Ctrl-C.

    Recovery then handles the jobs to which this process assigned nodes, and the new job or the nodes of the
    new cluster `guid`, if any.
    """

    def release(db: Database) -> None:
        identity = process.own_identity()
        job_table.release(db, identity, guid)
        node_table.give_up(db, guid, identity)

    try:
        yield
    except BaseException:
        with contextlib.suppress(StorageError):  # the original error takes precedence
            store.insist(release)
        raise


def start(store: Store, layout: Layout, job: JobRow, secrets: Secrets = _NONE) -> Children:
    """Starts a job's supervisor, which outlives this process; returns none if that fails, as the job does."""
    log, arguments = layout.job(job.guid).supervisor_log, (str(layout.home), job.guid)
    try:
        child = process.start(
            "supervisor",
            arguments,
            log=log,
            python=job.python,
            secrets=secrets._asdict(),
            has_packages=not process.HAS_ORPHANS,  # elsewhere it needs psutil
        )
        with store.write(waits_for_disk=False) as db:  # it claims the job itself
            job_table.set_supervisor(db, job.guid, process.identity_of_child(child.pid))
    except Exception as error:  # noqa: BLE001 a job that cannot start must not block the queue
        _fail_start(store, layout, job, error)
        return []
    return [child]


def _fail_start(store: Store, layout: Layout, job: JobRow, error: Exception) -> None:
    """Fails a queued job; removes one that is being created, and raises."""
    with store.write() as db:
        if job.is_assigned:
            scheduler.record_end(db, job.guid, launch_failure(error))
            return
        job_table.delete(db, job)
        job_table.release_dependents(db, job.guid, is_success=False)
    unmanaged_mounts.remove(layout.job(job.guid).root)
    text = f"The job's supervisor could not be started: {error}"
    raise ServiceError(text, code="JobLaunchFailed") from error
