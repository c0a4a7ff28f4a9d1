"""Gang scheduling without a daemon: every command that changes state runs one step.

A step assigns idle nodes to queued jobs and starts their supervisors. A job with secrets gets its supervisor
before its nodes, since that process holds the secrets.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from itertools import chain

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local import unmanaged_mounts
from batchai_magics.backends.local.state import job_table, resource_table
from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import detached_process, node_allocation, process
from batchai_magics.backends.local.watch.detached_process import JobSecrets
from batchai_magics.backends.local.watch.outcome_writer import write_outcome
from batchai_magics.backends.node.outcome import not_started
from batchai_magics.errors import ServiceError, StorageError
from batchai_magics.untrusted_files import tail_of


def schedule(
    store: Store, layout: Layout, *, secrets: Mapping[str, JobSecrets] | None = None
) -> list[subprocess.Popen[bytes]]:
    """Starts every job that can start.

    Args:
        store: The store.
        layout: The folders.
        secrets: Secrets of new jobs, by guid.

    Returns:
        The supervisors that were started, for reaping.

    Raises:
        ServiceError: A new job's supervisor cannot be started; the job was not created.
    """
    started = []
    with release_on_interrupt(store):
        with store.read() as db:
            due = [job for guid in secrets or () if (job := job_table.find_open(db, guid))]
        for job in chain(due, _assign_all(store)):  # nodes are assigned once those have supervisors
            if not job.supervisor:  # recovery handles one that died
                started += start(store, layout, job, secrets=(secrets or {}).get(job.guid, JobSecrets()))
    return started


@contextlib.contextmanager
def release_on_interrupt(store: Store, guid: str = "") -> Iterator[None]:
    """Gives up this process's claims as spawner if the block raises, such as on Ctrl-C.

    Recovery then handles the jobs to which this process assigned nodes, and the new job `guid`, if any.
    """
    try:
        yield
    except BaseException:
        with contextlib.suppress(StorageError):  # the original error takes precedence
            store.insist(lambda db: job_table.release(db, process.own_identity(), guid))
        raise


def start(store: Store, layout: Layout, job: JobRow, *, secrets: JobSecrets) -> list[subprocess.Popen[bytes]]:
    """Starts a job's supervisor; returns none if that fails, which fails the job."""
    try:
        return [spawn(store, layout, job, secrets=secrets)]
    except Exception as error:  # noqa: BLE001 a job that cannot start must not block the queue
        _fail_start(store, layout, job, error)
        return []


def spawn(store: Store, layout: Layout, job: JobRow, *, secrets: JobSecrets) -> subprocess.Popen[bytes]:
    """Starts a job's supervisor in its own session, so that it outlives this process."""
    arguments, log = (str(layout.home), job.key, job.guid), layout.job(job.guid).supervisor_log
    program = detached_process.Program("supervisor", arguments, job.python, log)
    child = detached_process.start(program, secrets=secrets._asdict())
    with store.write() as db:
        job_table.set_supervisor(db, job, process.identity_of_child(child.pid))
    return child


def _fail_start(store: Store, layout: Layout, job: JobRow, error: Exception) -> None:
    """Fails a queued job; removes one that is being created, and raises."""
    with store.write() as db:
        if job.is_assigned:
            write_outcome(db, job.key, job.guid, not_started(error))
            return
        job_table.delete(db, job.key)
        resource_table.delete(db, job.key)
        job_table.release_dependents(db, job.guid, is_success=False)
    unmanaged_mounts.remove(layout.job(job.guid).root)
    text = f"The job's supervisor could not be started: {error}"
    raise ServiceError(text, code="JobLaunchFailed") from error


def _assign_all(store: Store) -> Iterator[JobRow]:
    """Assigns idle nodes when the first job is asked for; yields the jobs that have got some."""
    with store.read() as db:
        if not job_table.waiting_clusters(db):
            return
    with store.write() as db:
        clusters = job_table.waiting_clusters(db)
        assigned = [job for cluster in clusters for job in node_allocation.assign_nodes(db, cluster)]
    yield from assigned


def supervisor_tail(layout: Layout, guid: str) -> str:
    """The last line a dead supervisor logged, for the error message."""
    try:
        text = tail_of(layout.job(guid).supervisor_log)
    except OSError:
        return ""
    return text.strip().rpartition("\n")[2]
