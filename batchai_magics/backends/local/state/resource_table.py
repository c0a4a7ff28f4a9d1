"""The `resource` table: id, kind, parent and spec of every resource."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Sequence
from typing import NamedTuple

from batchai_magics.backends.base import Page
from batchai_magics.backends.local.state.table_rows import rows_of_keys
from batchai_magics.backends.service import api_errors
from batchai_magics.errors import NotFoundError
from batchai_magics.models.resource_ids import Kind, ResourceId

LAST_CHARACTER = "\U0010ffff"  # after every other character


class ResourceRow(NamedTuple):
    """One resource of any kind; a named tuple, since lists make thousands."""

    id: ResourceId
    spec: str  # wire JSON without secrets
    fingerprint: str  # of the description
    created: float
    seq: int  # order of creation

    @classmethod
    def of(cls, row: sqlite3.Row) -> ResourceRow:
        """The row as a value."""
        return cls(ResourceId.parse(row["id"]), row["spec"], row["fingerprint"], row["created"], row["seq"])


def find(db: sqlite3.Connection, id: ResourceId) -> ResourceRow | None:
    """The resource with that id, or None."""
    row = db.execute("SELECT * FROM resource WHERE key = ?", (id.key,)).fetchone()
    return ResourceRow.of(row) if row else None


def get(db: sqlite3.Connection, id: ResourceId) -> ResourceRow:
    """The resource with that id; raises NotFoundError with the service's message."""
    row = find(db, id)
    if row is None:
        raise not_found(db, id)
    return row


def by_key(db: sqlite3.Connection, key: str) -> ResourceRow:
    """An existing resource by its key (the id in lower case)."""
    return ResourceRow.of(db.execute("SELECT * FROM resource WHERE key = ?", (key,)).fetchone())


def by_guid(db: sqlite3.Connection, guid: str) -> ResourceRow:
    """An existing resource by its guid."""
    return ResourceRow.of(db.execute("SELECT * FROM resource WHERE guid = ?", (guid,)).fetchone())


def children(db: sqlite3.Connection, parent: ResourceId, kind: Kind, page: Page) -> list[ResourceRow]:
    """The resources of a kind inside `parent` (workspaces: in its group), oldest first.

    Returns one row more than the page holds if it is not the last page.
    """
    key = parent_key(parent.workspace_id) if kind is Kind.WORKSPACE else parent.key
    query = "SELECT * FROM resource WHERE parent = ? AND kind = ? AND seq > ? ORDER BY seq LIMIT ?"
    size = -1 if page.size is None else page.size + 1
    found = db.execute(query, (key, kind.value, int(page.after or 0), size)).fetchall()
    return [ResourceRow.of(row) for row in found]


def find_many(db: sqlite3.Connection, ids: Collection[ResourceId]) -> list[ResourceRow]:
    """The resources of these that exist."""
    return [ResourceRow.of(row) for row in rows_of_keys(db, "resource", [id.key for id in ids])]


def workspaces(db: sqlite3.Connection) -> list[ResourceRow]:
    """All workspaces, oldest first."""
    query = "SELECT * FROM resource WHERE kind = ? ORDER BY seq"
    return [ResourceRow.of(row) for row in db.execute(query, (Kind.WORKSPACE.value,)).fetchall()]


def subtree(db: sqlite3.Connection, id: ResourceId) -> list[ResourceId]:
    """The resource and everything below it, innermost first; jobs are not below their cluster."""
    query = "SELECT id FROM resource WHERE key = ? OR substr(key, 1, ?) = ? ORDER BY length(key) DESC"
    below = id.key + "/"
    return [ResourceId.parse(inner) for (inner,) in db.execute(query, (id.key, len(below), below)).fetchall()]


def names(db: sqlite3.Connection, parent: ResourceId, kind: Kind, prefix: str) -> list[str]:
    """The names of direct children of `parent` of a kind with that prefix, oldest first.

    Reads a range of the key index.
    """
    first = parent.child(kind, prefix).key
    query = "SELECT id FROM resource WHERE key >= ? AND key < ? AND kind = ? ORDER BY seq"
    rows = db.execute(query, (first, first + LAST_CHARACTER, kind.value)).fetchall()
    return [id.rpartition("/")[2] for (id,) in rows]


def insert(db: sqlite3.Connection, id: ResourceId, *, spec: str, fingerprint: str, owner: str = "") -> None:
    """Inserts a new resource."""
    db.execute(
        "INSERT INTO resource (key, id, kind, parent, spec, fingerprint, created, owner)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (id.key, str(id), id.kind.value, parent_key(id), spec, fingerprint, time.time(), owner),
    )


def owners(db: sqlite3.Connection, key: str) -> dict[str, str]:
    """The known owners of the resource with that key and of all inside it, by key."""
    query = "SELECT key, owner FROM resource WHERE (key = ? OR (key >= ? AND key < ?)) AND owner != ''"
    return dict(db.execute(query, (key, f"{key}/", f"{key}/{LAST_CHARACTER}")).fetchall())


def change_spec(db: sqlite3.Connection, id: ResourceId, spec: str) -> None:
    """Changes the spec of a resource; the fingerprint of its original spec stays."""
    db.execute("UPDATE resource SET spec = ? WHERE key = ?", (spec, id.key))


def delete(db: sqlite3.Connection, key: str) -> None:
    """Deletes a resource."""
    db.execute("DELETE FROM resource WHERE key = ?", (key,))


def not_found(db: sqlite3.Connection, id: ResourceId) -> NotFoundError:
    """The service's error for a missing resource or parent, with existing names."""
    if id.kind is not Kind.WORKSPACE and find(db, id.parent) is None:
        return not_found(db, id.parent)
    return api_errors.not_found(id, _newest_names(db, parent_key(id), id.kind))


def parent_key(id: ResourceId) -> str:
    """The key a resource is listed under: its parent, or a workspace's resource group."""
    return id.key.rpartition("/workspaces/")[0] if id.kind is Kind.WORKSPACE else id.parent.key


def _newest_names(db: sqlite3.Connection, parent: str, kind: Kind) -> Sequence[str]:
    query = "SELECT id FROM resource WHERE parent = ? AND kind = ? ORDER BY seq DESC LIMIT 8"
    return [ResourceId.parse(id).name for (id,) in db.execute(query, (parent, kind.value))]
