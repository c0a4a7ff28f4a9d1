"""The tables of the store. Their version is that of the Plan; other versions are refused.

`PRAGMA user_version` is the version of a database. There are no migrations before the first release.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.errors import StorageError
from batchai_magics.launch.plan import OTHER_VERSION_HINT, VERSION

_TABLES = f"""
BEGIN IMMEDIATE;
CREATE TABLE resource (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,      -- the ARM id in lower case
    id TEXT NOT NULL,              -- the ARM id as it was given
    kind TEXT NOT NULL,
    parent TEXT NOT NULL,
    spec TEXT NOT NULL,            -- wire JSON without secrets
    fingerprint TEXT NOT NULL,     -- of the description
    created REAL NOT NULL,
    owner TEXT NOT NULL DEFAULT '',  -- the user who created it
    guid TEXT NOT NULL,
    more TEXT NOT NULL DEFAULT '{{}}'  -- what else is recorded of it (JSON)
) STRICT;
CREATE INDEX resource_parent ON resource (parent, kind, seq);
CREATE INDEX resource_guid ON resource (guid);
CREATE INDEX resource_kind ON resource (kind, seq) WHERE kind != 'jobs';
CREATE TABLE resource_group (
    key TEXT PRIMARY KEY,          -- the name in lower case
    name TEXT NOT NULL,
    location TEXT NOT NULL,
    tags TEXT NOT NULL
) STRICT;
CREATE TABLE account (
    name TEXT PRIMARY KEY,
    group_name TEXT NOT NULL,
    location TEXT NOT NULL,
    sku TEXT NOT NULL,
    key1 TEXT NOT NULL,
    key2 TEXT NOT NULL
) STRICT;
CREATE TABLE cluster (
    key TEXT PRIMARY KEY,
    guid TEXT NOT NULL,
    target INTEGER NOT NULL,
    minimum INTEGER,               -- of an auto-scale cluster
    maximum INTEGER,
    idle_s REAL NOT NULL DEFAULT 0,
    next_ordinal INTEGER NOT NULL DEFAULT 0,
    changed REAL NOT NULL
) STRICT;
CREATE TABLE node (
    id TEXT PRIMARY KEY,
    cluster TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    state TEXT NOT NULL,
    since REAL NOT NULL,           -- when it came to that state
    job TEXT,
    preparer TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX node_cluster ON node (cluster, ordinal);
CREATE INDEX node_job ON node (job) WHERE job IS NOT NULL;
CREATE TABLE job (
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
    ranks TEXT NOT NULL DEFAULT '[]',
    again TEXT NOT NULL DEFAULT '',  -- why a requeue is pending
    attempts TEXT NOT NULL DEFAULT '[]',  -- every start (JSON list): a requeued job stays one job
    owner TEXT NOT NULL DEFAULT '',  -- jobs of one priority are ordered by their owners' nodes
    max_running INTEGER NOT NULL DEFAULT 0,  -- how many jobs of the owner may run at once; 0: any number
    job_group TEXT NOT NULL DEFAULT '',  -- such as the trials of a sweep
    group_limit INTEGER NOT NULL DEFAULT 0,  -- how many jobs of the group may run at once; 0: any number
    gpu_count INTEGER NOT NULL DEFAULT 0,  -- of a job that shares its node with others
    after TEXT NOT NULL DEFAULT '[]'  -- the runs (JSON list) that have to end before it is in the queue
) STRICT;
-- Supervisors and sweeps look up single runs by guid, which must not scan thousands of jobs.
CREATE INDEX job_guid ON job (guid);
CREATE INDEX job_state ON job (state, cluster);
-- Every step reads the head of a queue and the runs that need a process, without scanning a long queue or
-- history.
CREATE INDEX job_queue ON job (cluster, state, is_assigned, after, priority DESC, owner);
CREATE INDEX job_after ON job (guid) WHERE after != '[]';
CREATE INDEX job_watched ON job (state) WHERE (supervisor != '' OR is_assigned = 1 OR needs_secrets = 1);
CREATE INDEX job_limited ON job (job_group) WHERE group_limit > 0 AND is_assigned = 1;
-- Which GPUs of a node a job has that shares it with others; such a node runs no job of its own.
CREATE TABLE gpu_share (
    job TEXT NOT NULL,
    node TEXT NOT NULL,
    gpus TEXT NOT NULL,            -- as CUDA_VISIBLE_DEVICES names them
    PRIMARY KEY (job, node)
) STRICT;
CREATE INDEX gpu_share_node ON gpu_share (node);
-- All jobs of each node.
CREATE VIEW node_run AS
    SELECT id AS node, job, '' AS gpus FROM node WHERE job IS NOT NULL
    UNION ALL SELECT node, job, gpus FROM gpu_share;
CREATE TRIGGER node_deleted AFTER DELETE ON node BEGIN
    DELETE FROM gpu_share WHERE node = old.id;
END;
-- Jobs, clusters and nodes go with their resource.
CREATE TRIGGER resource_deleted AFTER DELETE ON resource BEGIN
    DELETE FROM job WHERE key = old.key;
    DELETE FROM node WHERE cluster = old.key;
    DELETE FROM cluster WHERE key = old.key;
END;
PRAGMA user_version = {VERSION};
"""


def has_tables(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether a database has its tables; changes nothing.

    Raises:
        StorageError: Another version made them.
    """
    # Asked before the version, which is committed with the tables: another process may be making them.
    if not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        return False
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != VERSION:
        text = f"{path} has version {version}, and this batchai_magics reads and writes version {VERSION}"
        raise StorageError(text, code="StoreVersionMismatch", hint=OTHER_VERSION_HINT)
    return True


def create(connection: sqlite3.Connection, path: Path) -> int:
    """Creates the tables, and rebuilds their rows from job folders, if there are any, all in one transaction.

    Returns:
        The number of jobs that were found.
    """
    try:
        connection.executescript(_TABLES)
        found = _rebuild(connection, Layout(path.parent))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return found


def _rebuild(connection: sqlite3.Connection, layout: Layout) -> int:
    if not layout.jobs.exists():
        return 0
    from batchai_magics.backends.local.state import store_rebuild  # loads the models

    return store_rebuild.rebuild(connection, layout)
