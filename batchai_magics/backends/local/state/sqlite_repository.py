"""The records of a home in the `resource` table of its database."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

from batchai_magics.backends.base import Page
from batchai_magics.backends.local.state import resource_table
from batchai_magics.backends.local.state.job_table import IS_OPEN
from batchai_magics.backends.local.state.resource_table import LAST_CHARACTER, record_of
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.local.state.table_rows import rows_of_keys
from batchai_magics.backends.service.repository import Footprint, Record, RecordPage
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


def _all(db: Database, query: str, *values: object) -> list[Record]:
    return [record_of(row) for row in db.execute(query, values).fetchall()]


def _inside(key: str) -> tuple[str, str, str]:
    """The key of a resource or group, and the range of those inside it."""
    return key, f"{key}/", f"{key}/{LAST_CHARACTER}"
