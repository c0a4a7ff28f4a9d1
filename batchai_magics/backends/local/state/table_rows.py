"""Rows of the database, as all tables read them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

MAX_KEYS = 500  # in one question: SQLite takes 999 values on older machines


def rows_of_keys(db: sqlite3.Connection, table: str, keys: Sequence[str]) -> Iterator[sqlite3.Row]:
    """The rows of a table that have these keys."""
    return query_in_batches(db, f"SELECT * FROM {table} WHERE key IN", keys)


def query_in_batches(db: sqlite3.Connection, query: str, keys: Sequence[str]) -> Iterator[sqlite3.Row]:
    """The rows of a query that ends with `IN`, for however many keys."""
    for start in range(0, len(keys), MAX_KEYS):
        part = keys[start : start + MAX_KEYS]
        marks = ", ".join("?" * len(part))
        yield from db.execute(f"{query} ({marks})", part).fetchall()


def columns(row: sqlite3.Row) -> dict[str, Any]:
    """The values of a row by the names of its columns."""
    return dict(zip(row.keys(), row, strict=True))


def to_datetime(seconds: float) -> datetime:
    """A stored time (seconds since 1970, UTC) as a value."""
    return datetime.fromtimestamp(seconds, timezone.utc)
