"""The records of a home in the `resource` table of its database."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from batchai_magics.backends.base import Page
from batchai_magics.backends.local.state import resource_table
from batchai_magics.backends.local.state.job_table import IS_OPEN
from batchai_magics.backends.local.state.resource_table import LAST_CHARACTER, parent_key
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.local.state.table_rows import rows_of_keys
from batchai_magics.backends.service.repository import OWNER, Footprint, Record, RecordPage
from batchai_magics.models.resource_ids import Kind, ResourceId

_OPEN = f"SELECT resource.* FROM job JOIN resource USING (key) WHERE {IS_OPEN}"
_INSIDE = "(key = ? OR (key >= ? AND key < ?))"


class SqliteRepository:
    """The records of a home in its database; see `backends.service.repository.Repository`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def now(self) -> float:
        """The time by this machine's clock, in seconds since 1970."""
        return time.time()

    def find(self, id: ResourceId) -> Record | None:
        """The record of a resource; None if it does not exist."""
        with self._store.read() as db:
            return _find(db, id)

    def find_all(self, ids: Collection[ResourceId]) -> list[Record]:
        """The records of those resources that exist, in the order of `ids`, read together."""
        keys = [id.key for id in ids]
        with self._store.read() as db:
            records = {row["key"]: _record(row) for row in rows_of_keys(db, "resource", keys)}
        return [records[key] for key in keys if key in records]

    def get(self, id: ResourceId) -> Record:
        """The record of a resource; NotFoundError for the outermost resource that is missing."""
        with self._store.read() as db:
            return _get(db, id)

    def insert(self, id: ResourceId, record: Record) -> Record | None:
        """Inserts a record unless one exists; returns the one that existed before, if any."""
        self._store.make_reserve()
        with self._store.write() as db:
            existing = _find(db, id)
            if existing is None:
                _insert(db, id, record)
            return existing

    def change(self, id: ResourceId, make: Callable[[Record], Record]) -> Record:
        """Replaces a record by what `make` returns for it, in one transaction."""
        with self._store.write() as db:
            record = make(_get(db, id))
            owner, more = _owner_and_more(record)
            values = (record.spec, record.fingerprint, owner, more, id.key)
            db.execute(
                "UPDATE resource SET spec = ?, fingerprint = ?, owner = ?, more = ? WHERE key = ?", values
            )
            return record

    def delete(self, id: ResourceId) -> None:
        """Deletes a record and those inside it, also on a full disk."""
        self._store.insist(lambda db: db.execute(f"DELETE FROM resource WHERE {_INSIDE}", _inside(id.key)))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Within it, all changes of this thread in the database are made together or not at all."""
        with self._store.write():
            yield

    def children(self, parent: ResourceId, kind: Kind, page: Page) -> RecordPage:
        """A page of the records of a kind inside `parent` (workspaces: in its group), oldest first."""
        query = "SELECT * FROM resource WHERE parent = ? AND kind = ? AND seq > ? ORDER BY seq LIMIT ?"
        size = -1 if page.size is None else page.size + 1
        values = (_listed_under(parent, kind), kind.value, int(page.after or 0), size)
        with self._store.read() as db:
            rows = db.execute(query, values).fetchall()
        shown = rows[: page.size]
        after = None if len(shown) == len(rows) else Page(page.size, str(shown[-1]["seq"]))
        return RecordPage(list(map(_record, shown)), after)

    def names(self, parent: ResourceId, kind: Kind, prefix: str = "") -> list[str]:
        """The names of a kind inside `parent` that begin with `prefix` in any case, oldest first."""
        with self._store.read() as db:
            return resource_table.names(db, parent, kind, prefix)

    def subtree(self, id: ResourceId) -> list[Record]:
        """A resource and everything inside it, innermost first; NotFoundError if it does not exist."""
        with self._store.read() as db:
            _get(db, id)
            return _all(
                db, f"SELECT * FROM resource WHERE {_INSIDE} ORDER BY length(key) DESC", *_inside(id.key)
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
            return dict(db.execute(query, _inside(key)).fetchall())

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

    def footprint(self, ids: Sequence[ResourceId], clusters: Sequence[str] = ()) -> Footprint:
        """No files: a snapshot is a transaction."""
        return Footprint()

    def snapshot(self, *footprints: Footprint) -> AbstractContextManager[None]:
        """Within it, all reads of this thread are of one moment, until it writes."""
        return self._store.snapshot()

    def _of_kind(self, kind: Kind) -> list[Record]:
        query = "SELECT * FROM resource WHERE kind = ? AND kind != 'jobs' ORDER BY seq"  # as its index says
        with self._store.read() as db:
            return _all(db, query, kind.value)


class JsonObject(Mapping[str, Any]):
    """A JSON object that is parsed when something of it is read: lists read thousands of records."""

    def __init__(self, text: str, also: Mapping[str, Any]) -> None:
        self._text, self._also = text, also
        self._parsed: Mapping[str, Any] | None = None

    def __getitem__(self, key: str) -> Any:
        """The value of a key."""
        return self._fields[key]

    def __iter__(self) -> Iterator[str]:
        """The keys."""
        return iter(self._fields)

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._fields)

    @property
    def _fields(self) -> Mapping[str, Any]:
        if self._parsed is None:
            self._parsed = {**json.loads(self._text), **self._also}
        return self._parsed


def _find(db: Database, id: ResourceId) -> Record | None:
    row = db.execute("SELECT * FROM resource WHERE key = ?", (id.key,)).fetchone()
    return _record(row) if row else None


def _get(db: Database, id: ResourceId) -> Record:
    record = _find(db, id)
    if record is None:
        raise resource_table.not_found(db, id)
    return record


def _all(db: Database, query: str, *values: object) -> list[Record]:
    return [_record(row) for row in db.execute(query, values).fetchall()]


def _record(row: sqlite3.Row) -> Record:
    more = JsonObject(row["more"], {OWNER: row["owner"]} if row["owner"] else {})
    return Record(row["id"], row["guid"], row["spec"], row["fingerprint"], row["created"], more)


def _insert(db: Database, id: ResourceId, record: Record) -> None:
    """Inserts a record; NotFoundError for what it is to be inside of."""
    if id.kind is not Kind.WORKSPACE:
        _get(db, id.parent)
    owner, more = _owner_and_more(record)
    values = {
        "key": id.key,
        "id": record.id,
        "kind": id.kind.value,
        "parent": parent_key(id),
        "spec": record.spec,
        "fingerprint": record.fingerprint,
        "created": record.created,
        "owner": owner,
        "guid": record.guid,
        "more": more,
    }
    db.execute(f"INSERT INTO resource ({', '.join(values)}) VALUES (:{', :'.join(values)})", values)


def _owner_and_more(record: Record) -> tuple[str, str]:
    more = dict(record.more)
    return more.pop(OWNER, ""), json.dumps(more)


def _inside(key: str) -> tuple[str, str, str]:
    """The key of a resource or group, and the range of those inside it."""
    return key, f"{key}/", f"{key}/{LAST_CHARACTER}"


def _listed_under(parent: ResourceId, kind: Kind) -> str:
    return parent_key(parent.workspace_id) if kind is Kind.WORKSPACE else parent.key
