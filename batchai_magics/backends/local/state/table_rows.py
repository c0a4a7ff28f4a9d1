"""Rows of any table: queries by key, and values as Python has them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
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
