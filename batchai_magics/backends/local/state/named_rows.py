"""Named rows of the database: the tables of storage accounts and resource groups."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any, NamedTuple

from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.state.table_rows import columns


class Table(NamedTuple):
    """A table of named rows; `key` is the column of the name in lower case."""

    name: str
    key: str


ACCOUNTS = Table("account", "name")
GROUPS = Table("resource_group", "key")
_COLUMNS = {"group": "group_name"}  # values whose column is called otherwise
_VALUES = {column: value for value, column in _COLUMNS.items()}
_JSON = frozenset({"tags"})


class TableRows:
    """The rows of a table; see `backends.folders.home_accounts.Rows`."""

    def __init__(self, store: Store, table: Table) -> None:
        self._store, self._table = store, table

    def find(self, name: str) -> dict[str, Any] | None:
        """The row of that name; None if it does not exist."""
        query = f"SELECT * FROM {self._table.name} WHERE {self._table.key} = ?"
        with self._store.read() as db:
            row = db.execute(query, (name.lower(),)).fetchone()
        return _values(row) if row else None

    def all(self) -> list[dict[str, Any]]:
        """All rows, sorted by name."""
        with self._store.read() as db:
            rows = db.execute(f"SELECT * FROM {self._table.name} ORDER BY {self._table.key}").fetchall()
        return [_values(row) for row in rows]

    def insert(self, name: str, row: Mapping[str, Any]) -> None:
        """Adds a row unless it exists."""
        values = {self._table.key: name.lower(), **_columns(row)}
        marks = ", ".join("?" * len(values))
        statement = f"INSERT OR IGNORE INTO {self._table.name} ({', '.join(values)}) VALUES ({marks})"
        with self._store.write() as db:
            db.execute(statement, (*values.values(),))

    def change(self, name: str, **values: Any) -> None:
        """Changes values of a row."""
        changed = _columns(values)
        assignments = ", ".join(f"{column} = ?" for column in changed)
        statement = f"UPDATE {self._table.name} SET {assignments} WHERE {self._table.key} = ?"
        with self._store.write() as db:
            db.execute(statement, (*changed.values(), name.lower()))

    def delete(self, name: str) -> None:
        """Deletes a row, if it exists."""
        with self._store.write() as db:
            db.execute(f"DELETE FROM {self._table.name} WHERE {self._table.key} = ?", (name.lower(),))


def _columns(row: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: json.dumps(row[name]) for name in _JSON & row.keys()}
    return {_COLUMNS.get(name, name): value for name, value in {**row, **texts}.items()}


def _values(row: sqlite3.Row) -> dict[str, Any]:
    named = {_VALUES.get(column, column): value for column, value in columns(row).items()}
    return {**named, **{name: json.loads(named[name]) for name in _JSON & named.keys()}}
