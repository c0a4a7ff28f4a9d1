"""After a crash: jobs whose supervisor is gone get an honest end, and their processes with them."""

from __future__ import annotations

import sqlite3

from batchai_magics.backends.local.folders.layout import Layout
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.state.verdict import OPEN, record
from batchai_magics.backends.local.watch import process, scheduler
from batchai_magics.backends.node import registry
from batchai_magics.backends.node.outcome import Outcome, failed_with, stopped


def recover(store: Store, layout: Layout) -> bool:
    """Finds open jobs that nobody watches over and ends or re-queues them; True when there were any."""
    with store.read() as db:
        rows = db.execute(
            f"SELECT * FROM job WHERE state IN {OPEN}"
            " AND (supervisor != '' OR is_assigned = 1 OR needs_secrets = 1)"
        ).fetchall()
    orphans = [row for row in rows if not _is_watched(row)]
    for row in orphans:
        _settle(store, layout, row)
    return bool(orphans)


def _is_watched(row: sqlite3.Row) -> bool:
    if row["supervisor"]:
        return process.is_alive(row["supervisor"])
    return process.is_alive(row["spawner"])


def _settle(store: Store, layout: Layout, row: sqlite3.Row) -> None:
    guid = row["guid"]
    process.kill(lambda: process.marked(guid))
    registry.forget(layout.job(guid).registry)
    with store.write() as db:
        now = db.execute(f"SELECT * FROM job WHERE guid = ? AND state IN {OPEN}", (guid,)).fetchone()
        if now is None or now["supervisor"] != row["supervisor"] or _is_watched(now):
            return  # it ended, or somebody else took it, while we looked
        record(db, row["key"], guid, _outcome(layout, now))


def _outcome(layout: Layout, row: sqlite3.Row) -> Outcome:
    if row["stop"]:
        return stopped(row["stop"])
    if row["state"] != "queued":
        text = "The process that watched over the job disappeared (killed, or the machine was restarted)"
        return failed_with("JobSupervisorLost", text)
    tail = scheduler.supervisor_tail(layout, row["guid"])
    if row["needs_secrets"] and not tail:
        text = "The process that held its secrets disappeared while the job was queued; they were never saved"
        return failed_with("JobSecretsLost", f"{text}: submit it again")
    if not row["supervisor"]:
        return stopped("requeue")  # whoever gave it its nodes died before starting it
    return failed_with("JobLaunchFailed", f"The job's supervisor could not start: {tail or 'no message'}")
