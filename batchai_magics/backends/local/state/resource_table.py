"""The `resource` table: id, kind, parent and spec of every resource."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

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


def names(db: sqlite3.Connection, parent: ResourceId, kind: Kind, prefix: str) -> list[str]:
    """The names of direct children of `parent` of a kind with that prefix, oldest first.

    Reads a range of the key index.
    """
    first = parent.child(kind, prefix).key
    query = "SELECT id FROM resource WHERE key >= ? AND key < ? AND kind = ? ORDER BY seq"
    rows = db.execute(query, (first, first + LAST_CHARACTER, kind.value)).fetchall()
    return [id.rpartition("/")[2] for (id,) in rows]


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
