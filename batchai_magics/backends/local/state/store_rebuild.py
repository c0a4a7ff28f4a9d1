"""Rebuilds a lost database from the backups in job folders.

When a job is created, its folder gets copies of its row and of its workspace's, experiment's and cluster's.
Its outcome is in the files that its supervisor writes beside that.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_end import read_end
from batchai_magics.backends.local import process
from batchai_magics.backends.local.state import job_table, node_table
from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.outcome import failed_with
from batchai_magics.backends.service.repository import BASELINES
from batchai_magics.launch.plan import VERSION, Plan
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.runs.labels import BASELINE
from batchai_magics.models.states import DeallocationOption, ExecutionState, NodeState
from batchai_magics.records.record_files import LABELS
from batchai_magics.untrusted_files import MAX_PLAN_BYTES, read_json, read_text

Row = Mapping[str, Any]
_TABLES = ("resource", "cluster", "job")
_LOST = (
    "The database was lost before the job had ended, and no supervisor is left: whether it ran is unknown."
    " Submit it again if needed"
)


class JobBackup(NamedTuple):
    """The backup in a job's folder: rows by table."""

    folder: JobLayout
    rows: Mapping[str, Sequence[Row]]

    @property
    def job(self) -> Row:
        """The row of the job at its creation."""
        return self.rows["job"][0]

    @property
    def created(self) -> tuple[float, int]:
        """When the job was created, and its sequence number."""
        job_row = next(row for row in self.rows["resource"] if row["key"] == self.job["key"])
        return job_row["created"], job_row["seq"]


def write_backup(db: sqlite3.Connection, job: JobRow, folder: JobLayout) -> None:
    """Writes the rows that a new job depends on to its folder; raises OSError."""
    id = ResourceId.parse(job.key)
    keys = [id.workspace_id.key, id.parent.key, id.key]
    queries: dict[str, tuple[str, Sequence[str]]] = {
        "resource": ("key IN (?, ?, ?) OR guid = ? ORDER BY seq", [*keys, job.cluster]),
        "cluster": ("guid = ?", [job.cluster]),
        "job": ("guid = ?", [job.guid]),
    }
    rows = {
        table: [dict(row) for row in db.execute(f"SELECT * FROM {table} WHERE {where}", values)]
        for table, (where, values) in queries.items()
    }
    private_files.write(folder.creation, json.dumps({"version": VERSION, "rows": rows}))


def rebuild(db: sqlite3.Connection, layout: Layout) -> int:
    """Fills a new database from job folders, in an open transaction; returns the number of jobs."""
    folders = [layout.job(path.parent.name) for path in layout.jobs.glob("*/job.json")]
    backups = sorted(filter(None, map(_read_backup, folders)), key=lambda backup: backup.created)
    newest = {row["key"]: row for backup in backups for row in backup.rows["resource"]}
    for backup in reversed(backups):  # the newest backup has the latest state of its cluster
        _insert(db, "cluster", backup.rows["cluster"])
    for backup in backups:
        _insert(db, "resource", [newest[row["key"]] for row in backup.rows["resource"]])
        _insert(db, "job", backup.rows["job"])
        _restore_state(db, backup)
    job_table.release_all(db)
    for backup in backups:
        with contextlib.suppress(OSError, ValueError):
            labels = read_json(backup.folder.records / LABELS)
            statement = "UPDATE resource SET more = json_set(more, '$.labels', json(?)) WHERE key = ?"
            db.execute(statement, (json.dumps(labels), backup.job["key"]))
    is_pinned = f"json_extract(more, '$.{BASELINES}') IS NOT NULL"  # when a job was created
    db.execute(f"UPDATE resource SET more = json_remove(more, '$.{BASELINES}') WHERE {is_pinned}")
    for backup in sorted(backups, key=_labelled):
        _restore_baseline(db, backup)
    db.execute("DELETE FROM cluster WHERE guid NOT IN (SELECT guid FROM resource)")  # later ones replace them
    for guid, target in db.execute("SELECT guid, target FROM cluster").fetchall():
        node_table.resize(db, guid, target, DeallocationOption.WAIT_FOR_JOB_COMPLETION)
    return len(backups)


def _restore_baseline(db: sqlite3.Connection, backup: JobBackup) -> None:
    """Pins a job again that had the tag; the last one of an owner in an experiment counts."""
    statement = "SELECT id, owner, more FROM resource WHERE key = ?"
    text, owner, more = db.execute(statement, (backup.job["key"],)).fetchone()
    id = ResourceId.parse(text)
    if BASELINE in json.loads(more).get("labels", {}).get("tags", ()):
        statement = "UPDATE resource SET more = json_patch(more, ?) WHERE key = ?"
        pinned = {BASELINES: {owner: [id.name, backup.job["guid"]]}}
        db.execute(statement, (json.dumps(pinned), id.parent.key))


def _labelled(backup: JobBackup) -> float:
    """When the labels of a job were changed last."""
    try:
        return (backup.folder.records / LABELS).stat().st_mtime
    except OSError:
        return 0.0


def _read_backup(folder: JobLayout) -> JobBackup | None:
    """The backup in a folder; None if it is unreadable, or of another version."""
    try:
        data = read_json(folder.creation)
        backup = JobBackup(folder, {table: data["rows"][table] for table in _TABLES})
        return backup if data["version"] == VERSION and backup.created else None
    except (OSError, ValueError, KeyError, TypeError, IndexError, StopIteration):
        return None


def _insert(db: sqlite3.Connection, table: str, rows: Sequence[Row]) -> None:
    """Inserts rows that do not exist yet, with the columns that the table has."""
    known = {row["name"] for row in db.execute(f"PRAGMA table_info({table})")} - {"seq"}
    for row in rows:
        values = {name: value for name, value in row.items() if name in known}
        names = ", ".join(values)
        marks = ", ".join(f":{name}" for name in values)
        db.execute(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})", values)


def _restore_state(db: sqlite3.Connection, backup: JobBackup) -> None:
    """Sets a job to ended, running, queued with its secrets' holder, or failed as lost."""
    key, guid = backup.job["key"], backup.job["guid"]
    end, supervisor = read_end(backup.folder.end), _supervisor(backup.folder)
    is_bound = backup.folder.plan.exists()
    if end:
        job_table.end(db, guid, end)
    elif supervisor and backup.job["needs_secrets"] and not is_bound:
        db.execute("UPDATE job SET supervisor = ? WHERE key = ?", (supervisor, key))
    elif supervisor and (is_bound or process.is_alive(supervisor)):  # it may be about to bind the Plan
        _restore_running(db, backup, supervisor)
    else:
        job_table.end(db, guid, failed_with("JobStateLost", _LOST))


def _restore_running(db: sqlite3.Connection, backup: JobBackup, supervisor: str) -> None:
    """Marks a started job as running on its nodes; recovery ends it if its supervisor is gone."""
    is_bound = backup.folder.plan.exists()  # otherwise, only its supervisor knows its nodes
    began = (backup.folder.plan if is_bound else backup.folder.supervisor).stat().st_mtime
    values = (ExecutionState.RUNNING.value, began, began, supervisor, backup.job["key"])
    statement = "UPDATE job SET state = ?, changed = ?, started = ?, supervisor = ?, is_assigned = 1"
    db.execute(f"{statement} WHERE key = ?", values)
    if not is_bound:
        return
    for node in Plan.from_json(read_text(backup.folder.plan, MAX_PLAN_BYTES)).nodes:
        (ordinal,) = node_table.new_ordinals(db, backup.job["cluster"], 1)
        guid, is_shared = backup.job["guid"], bool(backup.job.get("gpu_count"))
        if is_shared:
            node_table.assign_gpus(db, guid, {node.id: node.env.get("CUDA_VISIBLE_DEVICES", "").split(",")})
        owner = None if is_shared else guid
        row = (node.id, backup.job["cluster"], ordinal, NodeState.RUNNING.value, began, owner)
        statement = "INSERT OR IGNORE INTO node (id, cluster, ordinal, state, since, job)"
        db.execute(f"{statement} VALUES (?, ?, ?, ?, ?, ?)", row)


def _supervisor(folder: JobLayout) -> str:
    try:
        return read_text(folder.supervisor).strip()
    except (OSError, ValueError):
        return ""
