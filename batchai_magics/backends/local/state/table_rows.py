"""Rows of any table: queries by key, values as Python has them, and records for rows of earlier versions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

MAX_KEYS = 500  # per query: older SQLite versions allow 999 parameters


def rows_of_keys(db: sqlite3.Connection, table: str, keys: Sequence[str]) -> Iterator[sqlite3.Row]:
    """The rows of a table with these keys."""
    return query_in_batches(db, f"SELECT * FROM {table} WHERE key IN", keys)


def query_in_batches(db: sqlite3.Connection, query: str, keys: Sequence[str]) -> Iterator[sqlite3.Row]:
    """The rows of a query that ends with `IN`, in batches of keys."""
    for start in range(0, len(keys), MAX_KEYS):
        part = keys[start : start + MAX_KEYS]
        marks = ", ".join("?" * len(part))
        yield from db.execute(f"{query} ({marks})", part).fetchall()


def columns(row: sqlite3.Row) -> dict[str, Any]:
    """The values of a row by column name."""
    return dict(zip(row.keys(), row, strict=True))


def to_datetime(seconds: float) -> datetime:
    """A stored time (Unix seconds) as an aware datetime."""
    return datetime.fromtimestamp(seconds, timezone.utc)


# Completes the rows of resources from before there were records.
FILL_RECORDS = """
UPDATE resource SET
    guid = coalesce(
        (SELECT guid FROM job WHERE job.key = resource.key),
        (SELECT guid FROM cluster WHERE cluster.key = resource.key),
        lower(hex(randomblob(16)))),
    more = coalesce(
        (SELECT json_patch(
             json_object(
                 'cluster', coalesce(own.id, job.cluster),
                 'cluster_guid', coalesce(cluster.guid, ''),
                 'output_root', job.output_root,
                 'node_count', job.node_count,
                 'priority', 2 - job.priority),
             CASE WHEN own.spec IS NULL THEN '{}' ELSE json_object('cluster_spec', own.spec) END)
         FROM job LEFT JOIN cluster ON cluster.key = job.cluster
         LEFT JOIN resource AS own ON own.key = job.cluster WHERE job.key = resource.key),
        (SELECT json_object('changed', changed) FROM cluster WHERE cluster.key = resource.key),
        '{}')
WHERE guid = ''
"""
