"""Gang scheduling without a daemon: whoever changes something runs one step.

A step gives idle nodes to queued jobs (priority first, then first come, first served; a job that does
not fit blocks the ones behind it, so that large jobs are not starved) and starts their supervisors.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time

from batchai_magics.backends.local.folders.layout import Layout
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.state.verdict import record
from batchai_magics.backends.local.watch import detached, process
from batchai_magics.backends.local.watch.job_secrets import JobSecrets
from batchai_magics.backends.node.outcome import failed_with


def step(store: Store, layout: Layout) -> list[subprocess.Popen[bytes]]:
    """Starts every job that can start; gives the supervisors it started (for reaping)."""
    started = []
    for row in _assign_all(store):
        try:
            _write_plan(store, layout, row)
            if not row["supervisor"]:  # one that died with the job's secrets is recovery's business
                started.append(spawn(store, layout, row, secrets=JobSecrets()))
        except Exception as error:  # noqa: BLE001 a job that cannot start must fail, not block the queue
            with store.write() as db:
                record(db, row["key"], row["guid"], failed_with("JobLaunchFailed", str(error)))
    return started


def spawn(store: Store, layout: Layout, row: sqlite3.Row, *, secrets: JobSecrets) -> subprocess.Popen[bytes]:
    """Starts a job's supervisor in a session of its own, so that it outlives this process."""
    log = layout.job(row["guid"]).supervisor_log
    arguments = (str(layout.home), row["key"], row["guid"])
    program = detached.Program("supervisor", arguments, row["python"], log)
    child = detached.start(program, secrets=secrets.to_message())
    with store.write() as db:
        db.execute(
            "UPDATE job SET supervisor = ? WHERE key = ? AND guid = ? AND supervisor = ''",
            (process.identity(child.pid), row["key"], row["guid"]),
        )
    return child


def _assign_all(store: Store) -> list[sqlite3.Row]:
    with store.read() as db:
        waiting = db.execute(
            "SELECT 1 FROM job WHERE state = 'queued' AND is_assigned = 0 LIMIT 1"
        ).fetchone()
    if not waiting:
        return []
    with store.write() as db:
        clusters = db.execute("SELECT DISTINCT cluster FROM job WHERE state = 'queued' AND is_assigned = 0")
        return [row for (cluster,) in clusters.fetchall() for row in _assign(db, cluster)]


def _assign(db: sqlite3.Connection, cluster: str) -> list[sqlite3.Row]:
    queue = db.execute(
        "SELECT job.* FROM job JOIN resource USING (key) WHERE cluster = ? AND state = 'queued'"
        # One whose secrets nobody holds is being made just now, or lost: see recovery.
        " AND is_assigned = 0 AND (needs_secrets = 0 OR supervisor != '') ORDER BY priority DESC, seq",
        (cluster,),
    ).fetchall()
    started = []
    for row in queue:
        idle = db.execute(
            "SELECT id FROM node WHERE cluster = ? AND state = 'idle' ORDER BY ordinal LIMIT ?",
            (cluster, row["node_count"]),
        ).fetchall()
        if len(idle) < row["node_count"]:
            break
        for (node,) in idle:
            db.execute(
                "UPDATE node SET state = 'running', since = ?, job = ? WHERE id = ?",
                (time.time(), row["guid"], node),
            )
        db.execute(
            "UPDATE job SET is_assigned = 1, changed = ?, spawner = ? WHERE key = ?",
            (time.time(), process.own_identity(), row["key"]),
        )
        started.append(row)
    return started


def _write_plan(store: Store, layout: Layout, row: sqlite3.Row) -> None:
    # A supervisor that ends a job with nothing queued behind it never needs the models.
    from batchai_magics.backends.local.watch import planning

    planning.write(store, layout, row)


def supervisor_tail(layout: Layout, guid: str) -> str:
    """The last words of a supervisor that died, for the error message."""
    try:
        text = layout.job(guid).supervisor_log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.strip().rpartition("\n")[2]


def python_of_this_process() -> str:
    """The interpreter that jobs submitted from here run with."""
    return sys.executable
