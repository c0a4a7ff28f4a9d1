"""The records of a home in its database: the `resource` table."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, lru_cache
from typing import Any

from batchai_magics.backends.base import Page, api_errors
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local.state.job_table import IS_OPEN
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.service.repository import OWNER, Record, RecordPage, Repository
from batchai_magics.models.resource_ids import Kind, ResourceId

LAST_CHARACTER = "\U0010ffff"  # after every other character
_OPEN = f"SELECT resource.* FROM job JOIN resource USING (guid) WHERE {IS_OPEN}"
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

    def make_home(self) -> None:
        """Creates the home with its disk reserve."""
        self._store.make_reserve()

    def now(self) -> float:
        """The time by this machine's clock, in seconds since 1970."""
        return time.time()

    def find(self, id: ResourceId) -> Record | None:
        """The record of a resource; None if it does not exist."""
        with self._store.read() as db:
            row = db.execute("SELECT * FROM resource WHERE key = ?", (id.key,)).fetchone()
        return record_of(row) if row else None

    def find_all(self, ids: Collection[ResourceId]) -> list[Record]:
        """The records of those resources that exist, in the order of `ids`, read together."""
        keys = [id.key for id in ids]
        query = "SELECT * FROM resource WHERE key IN (SELECT value FROM json_each(?))"
        with self._store.read() as db:
            records = {row["key"]: record_of(row) for row in db.execute(query, (json.dumps(keys),))}
        return [records[key] for key in keys if key in records]

    def get(self, id: ResourceId) -> Record:
        """The record of a resource; NotFoundError for the outermost resource that is missing."""
        if record := self.find(id):
            return record
        if id.kind is not Kind.WORKSPACE:
            self.get(id.parent)
        query = "SELECT id FROM resource WHERE parent = ? AND kind = ? ORDER BY seq DESC LIMIT 8"
        with self._store.read() as db:
            newest = db.execute(query, (_parent_key(id), id.kind.value)).fetchall()
        raise api_errors.not_found(id, [text.rpartition("/")[2] for (text,) in newest])

    def insert(self, record: Record) -> Record | None:
        """Inserts a record unless one exists; returns the one that existed before, if any.

        Raises NotFoundError if its parent does not exist.
        """
        id = record.resource_id
        self._store.make_reserve()
        with self._store.write() as db:
            if existing := self.find(id):
                return existing
            if id.kind is not Kind.WORKSPACE:
                self.get(id.parent)
            owner, more = _owner_and_more(record)
            values = {
                "key": id.key,
                "id": record.id,
                "kind": id.kind.value,
                "parent": _parent_key(id),
                "spec": record.spec,
                "fingerprint": record.fingerprint,
                "created": record.created,
                "owner": owner,
                "guid": record.guid,
                "more": more,
            }
            db.execute(f"INSERT INTO resource ({', '.join(values)}) VALUES (:{', :'.join(values)})", values)
            return None

    def change(self, id: ResourceId, make: Callable[[Record], Record]) -> Record:
        """Replaces a record by what `make` returns for it, in one transaction."""
        with self._store.write() as db:
            record = make(self.get(id))
            values = (record.spec, record.fingerprint, *_owner_and_more(record), id.key)
            statement = "UPDATE resource SET spec = ?, fingerprint = ?, owner = ?, more = ? WHERE key = ?"
            db.execute(statement, values)
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
                self.layout.job(guid).creation.unlink()
        self._store.insist(lambda db: db.execute(f"DELETE FROM resource WHERE {_INSIDE}", keys))

    def remove_cluster(self, guid: str) -> None:
        """Deletes what belongs to a cluster alone, after unmounting."""
        from batchai_magics.backends.local import unmanaged_mounts

        unmanaged_mounts.remove_cluster(self.layout, guid)

    def remove_runs(self, guids: Sequence[str]) -> None:
        """Deletes the folders of runs, after unmounting."""
        from batchai_magics.backends.local import unmanaged_mounts

        unmanaged_mounts.remove_jobs(self.layout, guids)

    def transaction(self) -> AbstractContextManager[Database]:
        """Within it, all changes of this thread in the database are made together or not at all."""
        return self._store.write()

    def children(self, parent: ResourceId, kind: Kind, page: Page) -> RecordPage:
        """A page of the records of a kind inside `parent` (workspaces: in its group), oldest first."""
        query = "SELECT * FROM resource WHERE parent = ? AND kind = ? AND seq > ? ORDER BY seq LIMIT ?"
        size = -1 if page.size is None else page.size + 1
        after = page.after or "0"
        if not (after.isascii() and after.isdigit() and len(after) < 19):
            raise api_errors.unknown_page(after)
        values = (_listed_under(parent, kind), kind.value, int(after), size)
        with self._store.read() as db:
            rows = db.execute(query, values).fetchall()
        shown = rows[: page.size]
        following = None if len(shown) == len(rows) else Page(page.size, str(shown[-1]["seq"]))
        return RecordPage(list(map(record_of, shown)), following)

    def names(self, parent: ResourceId, kind: Kind, prefix: str = "") -> list[str]:
        """The names of a kind inside `parent` that begin with `prefix` in any case, oldest first.

        Reads a range of the key index.
        """
        first = f"{_listed_under(parent, kind)}/{kind.value}/{prefix.lower()}"
        query = "SELECT id FROM resource WHERE key >= ? AND key < ? AND kind = ? ORDER BY seq"
        with self._store.read() as db:
            rows = db.execute(query, (first, first + LAST_CHARACTER, kind.value)).fetchall()
        return [id.rpartition("/")[2] for (id,) in rows]

    def subtree(self, id: ResourceId) -> list[Record]:
        """A resource and everything inside it, innermost first; NotFoundError if it does not exist."""
        query = f"SELECT * FROM resource WHERE {_INSIDE} ORDER BY length(key) DESC"
        with self._store.read() as db:
            self.get(id)
            return _all(db, query, *_subtree_keys(id.key))

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
            return _all(db, f"{_OPEN} AND cluster = ? ORDER BY seq", cluster_guid)

    def all_open_jobs(self) -> Iterable[Record]:
        """The jobs of all clusters whose runs have not ended, oldest first."""
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


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Mapping[str, Any]:
    """A JSON object, cached for polling."""
    fields: Mapping[str, Any] = json.loads(text)
    return fields


def record_of(row: sqlite3.Row) -> Record:
    """The row as a record."""
    more = _parsed(row["more"])
    if row["owner"]:
        more = {**more, OWNER: row["owner"]}
    return Record(row["id"], row["guid"], row["spec"], row["fingerprint"], row["created"], more)


def _owner_and_more(record: Record) -> tuple[str, str]:
    more = dict(record.more)
    return more.pop(OWNER, ""), json.dumps(more)


def _all(db: Database, query: str, *values: object) -> list[Record]:
    return [record_of(row) for row in db.execute(query, values).fetchall()]


def _listed_under(parent: ResourceId, kind: Kind) -> str:
    """The key that the resources of a kind inside `parent` are listed under."""
    return _parent_key(parent.workspace_id) if kind is Kind.WORKSPACE else parent.key


def _parent_key(id: ResourceId) -> str:
    """The key a resource is listed under: its parent, or a workspace's resource group."""
    return id.key.rpartition("/workspaces/")[0] if id.kind is Kind.WORKSPACE else id.parent.key


def _subtree_keys(key: str) -> tuple[str, str, str]:
    """The key of a resource or group, and the range of those inside it."""
    return key, f"{key}/", f"{key}/{LAST_CHARACTER}"
