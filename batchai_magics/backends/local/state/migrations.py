"""Schema migrations: numbered steps from one version to the next, with a backup before each.

`PRAGMA user_version` is the version of a database: the number of steps that were applied. New steps are
appended to STEPS; a released step never changes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local.state import database_errors
from batchai_magics.backends.local.state.table_rows import FILL_RECORDS
from batchai_magics.backends.service import private_files
from batchai_magics.errors import StorageError

_FIRST = """
CREATE TABLE IF NOT EXISTS resource (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,      -- the ARM id in lower case
    id TEXT NOT NULL,              -- the ARM id as it was given
    kind TEXT NOT NULL,
    parent TEXT NOT NULL,
    spec TEXT NOT NULL,            -- wire JSON without secrets
    fingerprint TEXT NOT NULL,     -- of the description
    created REAL NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS resource_parent ON resource (parent, kind, seq);
CREATE TABLE IF NOT EXISTS resource_group (
    key TEXT PRIMARY KEY,          -- the name in lower case
    name TEXT NOT NULL,
    location TEXT NOT NULL,
    tags TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS account (
    name TEXT PRIMARY KEY,
    group_name TEXT NOT NULL,
    location TEXT NOT NULL,
    sku TEXT NOT NULL,
    key1 TEXT NOT NULL,
    key2 TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS cluster (
    key TEXT PRIMARY KEY,
    guid TEXT NOT NULL,
    target INTEGER NOT NULL,
    minimum INTEGER,               -- of an auto-scale cluster
    maximum INTEGER,
    idle_s REAL NOT NULL DEFAULT 0,
    next_ordinal INTEGER NOT NULL DEFAULT 0,
    changed REAL NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS node (
    id TEXT PRIMARY KEY,
    cluster TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    state TEXT NOT NULL,
    since REAL NOT NULL,           -- when it came to that state
    job TEXT,
    preparer TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX IF NOT EXISTS node_cluster ON node (cluster, ordinal);
CREATE TABLE IF NOT EXISTS job (
    key TEXT PRIMARY KEY,
    guid TEXT NOT NULL,
    cluster TEXT NOT NULL,
    node_count INTEGER NOT NULL,
    priority INTEGER NOT NULL,     -- higher first
    state TEXT NOT NULL,
    changed REAL NOT NULL,
    output_root TEXT NOT NULL,     -- the folder that the output path segment is below
    python TEXT NOT NULL,          -- the interpreter that submitted it
    needs_secrets INTEGER NOT NULL,
    engine TEXT NOT NULL,          -- the command (JSON list) that runs its containers, [] for the host
    is_assigned INTEGER NOT NULL DEFAULT 0,
    spawner TEXT NOT NULL DEFAULT '',
    supervisor TEXT NOT NULL DEFAULT '',
    stop TEXT NOT NULL DEFAULT '', -- '', 'terminate' or 'requeue'
    started REAL,
    ended REAL,
    exit_code INTEGER,
    errors TEXT NOT NULL DEFAULT '[]',
    ranks TEXT NOT NULL DEFAULT '[]'
) STRICT;
CREATE INDEX IF NOT EXISTS job_state ON job (state, cluster);
"""
# Supervisors and sweeps look up single runs by guid, which must not scan thousands of jobs.
_RUNS = """
CREATE INDEX job_guid ON job (guid);
"""
# Every step reads the head of a queue and the runs that need a process, without scanning a long queue or
# history.
_HEADS = """
CREATE INDEX job_queue ON job (cluster, state, is_assigned, priority DESC);
CREATE INDEX job_watched ON job (state) WHERE (supervisor != '' OR is_assigned = 1 OR needs_secrets = 1);
"""
# A requeued job stays one job: `attempts` (JSON list) has every start, `again` why a requeue is pending.
_ATTEMPTS = """
ALTER TABLE job ADD COLUMN again TEXT NOT NULL DEFAULT '';
ALTER TABLE job ADD COLUMN attempts TEXT NOT NULL DEFAULT '[]';
"""
# The user who created the resource.
_OWNERS = """
ALTER TABLE resource ADD COLUMN owner TEXT NOT NULL DEFAULT '';
"""
# The records of the service: the guid of a resource, and what else is recorded of it (JSON). Jobs, clusters
# and nodes go with their resource.
_RECORDS = f"""
ALTER TABLE resource ADD COLUMN guid TEXT NOT NULL DEFAULT '';
ALTER TABLE resource ADD COLUMN more TEXT NOT NULL DEFAULT '{{}}';
{FILL_RECORDS};
CREATE INDEX resource_guid ON resource (guid);
CREATE INDEX resource_kind ON resource (kind, seq) WHERE kind != 'jobs';
CREATE TRIGGER resource_deleted AFTER DELETE ON resource BEGIN
    DELETE FROM job WHERE key = old.key;
    DELETE FROM node WHERE cluster = old.key;
    DELETE FROM cluster WHERE key = old.key;
END;
"""
# The user who created a job, by whose nodes jobs of one priority are ordered, and how many jobs of that user
# may run at a time (0: any number).
_FAIR_QUEUE = """
ALTER TABLE job ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE job ADD COLUMN max_running INTEGER NOT NULL DEFAULT 0;
UPDATE job SET owner = coalesce((SELECT owner FROM resource WHERE resource.key = job.key), '');
DROP INDEX job_queue;
CREATE INDEX job_queue ON job (cluster, state, is_assigned, priority DESC, owner);
CREATE INDEX node_job ON node (job) WHERE job IS NOT NULL;
"""
# Of the jobs of a group, such as the trials of a sweep, only so many run at once; 0: any number.
_JOB_GROUPS = """
ALTER TABLE job ADD COLUMN job_group TEXT NOT NULL DEFAULT '';
ALTER TABLE job ADD COLUMN group_limit INTEGER NOT NULL DEFAULT 0;
CREATE INDEX job_limited ON job (job_group) WHERE group_limit > 0 AND is_assigned = 1;
"""
# Which GPUs of a node a job has that shares it with others; such a node runs no job of its own. `node_run`
# has all jobs of each node.
_GPU_SHARES = """
ALTER TABLE job ADD COLUMN gpu_count INTEGER NOT NULL DEFAULT 0;
CREATE TABLE gpu_share (
    job TEXT NOT NULL,
    node TEXT NOT NULL,
    gpus TEXT NOT NULL,            -- as CUDA_VISIBLE_DEVICES names them
    PRIMARY KEY (job, node)
) STRICT;
CREATE INDEX gpu_share_node ON gpu_share (node);
CREATE VIEW node_run AS
    SELECT id AS node, job, '' AS gpus FROM node WHERE job IS NOT NULL
    UNION ALL SELECT node, job, gpus FROM gpu_share;
CREATE TRIGGER node_deleted AFTER DELETE ON node BEGIN
    DELETE FROM gpu_share WHERE node = old.id;
END;
"""
STEPS = (
    _FIRST,  # the schema of 0.1.0, which set no version: version 0 has these tables or none
    _RUNS,
    _HEADS,
    _ATTEMPTS,
    _OWNERS,
    _RECORDS,
    _FAIR_QUEUE,
    _JOB_GROUPS,
    _GPU_SHARES,
)
LATEST_VERSION = len(STEPS)


def migrate(connection: sqlite3.Connection, path: Path, *, may_make: bool = True) -> int:
    """Applies the steps that a database lacks, and creates its tables if it has none.

    Each step is one transaction that includes the backup: of two processes, one applies the step and the
    other finds it applied; a killed process leaves the previous version intact.

    Returns:
        The number of jobs that were restored from their folders, for a new database.

    Raises:
        StorageError: A newer version wrote the database, or it is empty and `may_make` is False.
    """
    found = 0
    while version(connection, path) < LATEST_VERSION:
        connection.execute("BEGIN IMMEDIATE")
        try:
            found += _apply_next(connection, path, may_make=may_make)
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    return found


def version(connection: sqlite3.Connection, path: Path) -> int:
    """The version of a database; raises StorageError if this code does not know it."""
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    if number > LATEST_VERSION:
        raise StorageError(
            f"{path} was written by a newer batchai_magics: it has version {number} of the database, and this"
            f" one knows versions up to {LATEST_VERSION}",
            code="StoreIsNewer",
            hint="Upgrade (pip install --upgrade batchai_magics), or set BATCHAI_HOME to another folder.",
        )
    return int(number)


def backup_path(path: Path, version: int) -> Path:
    """The path of the backup of that version."""
    return path.with_name(f"{path.stem}-version-{version}{path.suffix}")


def _apply_next(connection: sqlite3.Connection, path: Path, *, may_make: bool) -> int:
    """Applies the next step, after a backup; all steps to a new database."""
    before = version(connection, path)  # the transaction keeps others from changing it
    if not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        if not may_make:
            raise database_errors.missing(path)
        for number in range(LATEST_VERSION):
            _apply(connection, number)
        return _rebuild(connection, path)
    if before < LATEST_VERSION:
        _back_up(path, backup_path(path, before))
        _apply(connection, before)
    return 0


def _rebuild(connection: sqlite3.Connection, path: Path) -> int:
    """Rebuilds a lost database if there are job folders."""
    layout = Layout(path.parent)
    if not layout.jobs.exists():
        return 0
    from batchai_magics.backends.local.state import store_rebuild  # loads the models

    return store_rebuild.rebuild(connection, layout)


def _back_up(path: Path, copy: Path) -> None:
    """Backs up a database, atomically."""
    part = copy.with_suffix(".part")
    try:
        part.unlink(missing_ok=True)
        private_files.make_file(part)
        # The backup API needs a connection without a transaction; another one reads what is committed.
        with closing(sqlite3.connect(path)) as reader, closing(sqlite3.connect(part)) as writer:
            reader.backup(writer)
        part.replace(copy)
    except OSError as error:
        text = f"{path} needs an upgrade, and its backup {copy} cannot be written: {error.strerror}"
        hint = "Free some space, or move that out of the way, and try again; nothing was changed."
        raise StorageError(text, code="StoreUnavailable", hint=hint) from error


def _apply(connection: sqlite3.Connection, before: int) -> None:
    for statement in _statements(STEPS[before]):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {before + 1}")


def _statements(script: str) -> Iterator[str]:
    """The statements of a step: `executescript` would commit the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
