"""The records of a home in its database, and the named rows of storage accounts and resource groups."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, NamedTuple

from batchai_magics.backends.base import Page
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local.state import resource_table
from batchai_magics.backends.local.state.job_table import IS_OPEN
from batchai_magics.backends.local.state.resource_table import LAST_CHARACTER, record_of
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.local.state.table_rows import columns, rows_of_keys
from batchai_magics.backends.service.repository import Record, RecordPage, Repository
from batchai_magics.models.resource_ids import Kind, ResourceId


class NamedRows(NamedTuple):
    """A table of named rows; `key` is the column of the name in lower case."""

    name: str
    key: str


ACCOUNTS = NamedRows("account", "name")
GROUPS = NamedRows("resource_group", "key")
_COLUMNS = {"group": "group_name"}  # values whose column is called otherwise
_VALUES = {column: value for value, column in _COLUMNS.items()}
_JSON = frozenset({"tags"})


class TableRows:
    """The rows of a table; see `backends.service.repository.Rows`."""

    def __init__(self, store: Store, table: NamedRows) -> None:
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


_OPEN = f"SELECT resource.* FROM job JOIN resource USING (key) WHERE {IS_OPEN}"
_INSIDE = "(key = ? OR (key >= ? AND key < ?))"


class SqliteRepository(Repository):
    """The records of a home in its database, and its folders, in which jobs may have mounted something."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @cached_property
    def layout(self) -> Layout:
        """Where the files of the home are; StorageError if another version made it: none may be written."""
        self._store.check_version()
        return Layout(self._store.path.parent)

    @property
    def accounts(self) -> TableRows:
        """The rows of storage accounts."""
        return TableRows(self._store, ACCOUNTS)

    @property
    def groups(self) -> TableRows:
        """The rows of resource groups."""
        return TableRows(self._store, GROUPS)

    def now(self) -> float:
        """The time by this machine's clock, in seconds since 1970."""
        return time.time()

    def find(self, id: ResourceId) -> Record | None:
        """The record of a resource; None if it does not exist."""
        with self._store.read() as db:
            return resource_table.find(db, id)

    def find_all(self, ids: Collection[ResourceId]) -> list[Record]:
        """The records of those resources that exist, in the order of `ids`, read together."""
        keys = [id.key for id in ids]
        with self._store.read() as db:
            records = {row["key"]: record_of(row) for row in rows_of_keys(db, "resource", keys)}
        return [records[key] for key in keys if key in records]

    def get(self, id: ResourceId) -> Record:
        """The record of a resource; NotFoundError for the outermost resource that is missing."""
        with self._store.read() as db:
            return resource_table.get(db, id)

    def insert(self, id: ResourceId, record: Record) -> Record | None:
        """Inserts a record unless one exists; returns the one that existed before, if any."""
        self._store.make_reserve()
        with self._store.write() as db:
            existing = resource_table.find(db, id)
            if existing is None:
                resource_table.insert(db, id, record)
            return existing

    def change(self, id: ResourceId, make: Callable[[Record], Record]) -> Record:
        """Replaces a record by what `make` returns for it, in one transaction."""
        with self._store.write() as db:
            record = make(resource_table.get(db, id))
            resource_table.replace(db, id, record)
            return record

    def delete(self, id: ResourceId) -> None:
        """Deletes a record and those inside it, also on a full disk.

        The copies of jobs' rows from which a lost database is rebuilt are deleted first.
        """
        keys = _subtree_keys(id.key)
        with self._store.read() as db:
            jobs = db.execute(f"SELECT guid FROM resource WHERE {_INSIDE} AND kind = 'jobs'", keys).fetchall()
        for (guid,) in jobs:
            with contextlib.suppress(OSError):
                self.layout.job(guid).made.unlink()
        self._store.insist(lambda db: db.execute(f"DELETE FROM resource WHERE {_INSIDE}", keys))

    def remove_cluster(self, guid: str) -> None:
        """Deletes what belongs to a cluster alone, after unmounting."""
        from batchai_magics.backends.local import unmanaged_mounts

        unmanaged_mounts.remove_cluster(self.layout, guid)

    def remove_runs(self, guids: Sequence[str]) -> None:
        """Deletes the folders of runs, after unmounting."""
        from batchai_magics.backends.local import unmanaged_mounts

        unmanaged_mounts.remove_jobs(self.layout, guids)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Within it, all changes of this thread in the database are made together or not at all."""
        with self._store.write():
            yield

    def children(self, parent: ResourceId, kind: Kind, page: Page) -> RecordPage:
        """A page of the records of a kind inside `parent` (workspaces: in its group), oldest first."""
        query = "SELECT * FROM resource WHERE parent = ? AND kind = ? AND seq > ? ORDER BY seq LIMIT ?"
        size = -1 if page.size is None else page.size + 1
        values = (resource_table.listed_under(parent, kind), kind.value, int(page.after or 0), size)
        with self._store.read() as db:
            rows = db.execute(query, values).fetchall()
        shown = rows[: page.size]
        after = None if len(shown) == len(rows) else Page(page.size, str(shown[-1]["seq"]))
        return RecordPage(list(map(record_of, shown)), after)

    def names(self, parent: ResourceId, kind: Kind, prefix: str = "") -> list[str]:
        """The names of a kind inside `parent` that begin with `prefix` in any case, oldest first."""
        with self._store.read() as db:
            return resource_table.names(db, parent, kind, prefix)

    def subtree(self, id: ResourceId) -> list[Record]:
        """A resource and everything inside it, innermost first; NotFoundError if it does not exist."""
        with self._store.read() as db:
            resource_table.get(db, id)
            return _all(
                db,
                f"SELECT * FROM resource WHERE {_INSIDE} ORDER BY length(key) DESC",
                *_subtree_keys(id.key),
            )

    def workspaces(self) -> list[Record]:
        """The workspaces of all resource groups."""
        return self._of_kind(Kind.WORKSPACE)

    def clusters(self) -> list[Record]:
        """The clusters of all workspaces."""
        return self._of_kind(Kind.CLUSTER)

    def owners(self, key: str) -> dict[str, str]:
        """The known owners of the resource or resource group of that key and of what is inside, by key."""
        with self._store.read() as db:
            query = f"SELECT key, owner FROM resource WHERE {_INSIDE} AND owner != ''"
            return dict(db.execute(query, _subtree_keys(key)).fetchall())

    # -- the runs that have not ended

    def add_open_job(self, job: Record) -> None:
        """Nothing: the table of jobs has their states."""

    def remove_open_job(self, job: Record) -> None:
        """Nothing, as well."""

    def open_jobs(self, cluster_guid: str) -> list[Record]:
        """The jobs of a cluster whose runs have not ended, oldest first."""
        with self._store.read() as db:
            of_cluster = "cluster = (SELECT key FROM cluster WHERE guid = ?)"
            return _all(db, f"{_OPEN} AND {of_cluster} ORDER BY seq", cluster_guid)

    def all_open_jobs(self) -> Iterable[Record]:
        """The same of all clusters."""
        with self._store.read() as db:
            return _all(db, f"{_OPEN} ORDER BY seq")

    # -- reading at one moment

    def snapshot(
        self, ids: Sequence[ResourceId] = (), clusters: Sequence[str] = ()
    ) -> AbstractContextManager[None]:
        """Within it, all reads of this thread are of one moment, until it writes."""
        return self._store.snapshot()

    def _of_kind(self, kind: Kind) -> list[Record]:
        query = "SELECT * FROM resource WHERE kind = ? AND kind != 'jobs' ORDER BY seq"  # as its index says
        with self._store.read() as db:
            return _all(db, query, kind.value)


def _all(db: Database, query: str, *values: object) -> list[Record]:
    return [record_of(row) for row in db.execute(query, values).fetchall()]


def _subtree_keys(key: str) -> tuple[str, str, str]:
    """The key of a resource or group, and the range of those inside it."""
    return key, f"{key}/", f"{key}/{LAST_CHARACTER}"
