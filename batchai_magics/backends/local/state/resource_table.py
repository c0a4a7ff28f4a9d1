"""The `resource` table: a record of every resource."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from batchai_magics.backends.base import api_errors
from batchai_magics.backends.service.repository import OWNER, Record
from batchai_magics.errors import NotFoundError
from batchai_magics.models.resource_ids import Kind, ResourceId

LAST_CHARACTER = "\U0010ffff"  # after every other character


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Mapping[str, Any]:
    """A JSON object, cached for polling."""
    fields: Mapping[str, Any] = json.loads(text)
    return fields


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
            self._parsed = {**_parsed(self._text), **self._also}
        return self._parsed


def record_of(row: sqlite3.Row) -> Record:
    """The row as a record."""
    more = JsonObject(row["more"], {OWNER: row["owner"]} if row["owner"] else {})
    return Record(row["id"], row["guid"], row["spec"], row["fingerprint"], row["created"], more)


def find(db: sqlite3.Connection, id: ResourceId) -> Record | None:
    """The record of the resource with that id, or None."""
    row = db.execute("SELECT * FROM resource WHERE key = ?", (id.key,)).fetchone()
    return record_of(row) if row else None


def get(db: sqlite3.Connection, id: ResourceId) -> Record:
    """The record of the resource with that id; raises NotFoundError with the service's message."""
    record = find(db, id)
    if record is None:
        raise not_found(db, id)
    return record


def by_guid(db: sqlite3.Connection, guid: str) -> Record:
    """The record of an existing resource by its guid."""
    return record_of(db.execute("SELECT * FROM resource WHERE guid = ?", (guid,)).fetchone())


def names(db: sqlite3.Connection, parent: ResourceId, kind: Kind, prefix: str) -> list[str]:
    """The names of direct children of `parent` of a kind with that prefix, oldest first.

    Reads a range of the key index.
    """
    first = f"{listed_under(parent, kind)}/{kind.value}/{prefix.lower()}"
    query = "SELECT id FROM resource WHERE key >= ? AND key < ? AND kind = ? ORDER BY seq"
    rows = db.execute(query, (first, first + LAST_CHARACTER, kind.value)).fetchall()
    return [id.rpartition("/")[2] for (id,) in rows]


def insert(db: sqlite3.Connection, id: ResourceId, record: Record) -> None:
    """Inserts the record of a new resource; NotFoundError for what it is to be inside of."""
    if id.kind is not Kind.WORKSPACE:
        get(db, id.parent)
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


def replace(db: sqlite3.Connection, id: ResourceId, record: Record) -> None:
    """Replaces what can change of a record."""
    owner, more = _owner_and_more(record)
    values = (record.spec, record.fingerprint, owner, more, id.key)
    statement = "UPDATE resource SET spec = ?, fingerprint = ?, owner = ?, more = ? WHERE key = ?"
    db.execute(statement, values)


def delete(db: sqlite3.Connection, key: str) -> None:
    """Deletes a resource."""
    db.execute("DELETE FROM resource WHERE key = ?", (key,))


def not_found(db: sqlite3.Connection, id: ResourceId) -> NotFoundError:
    """The service's error for a missing resource or parent, with existing names."""
    if id.kind is not Kind.WORKSPACE and find(db, id.parent) is None:
        return not_found(db, id.parent)
    query = "SELECT id FROM resource WHERE parent = ? AND kind = ? ORDER BY seq DESC LIMIT 8"
    newest = db.execute(query, (parent_key(id), id.kind.value))
    return api_errors.not_found(id, [ResourceId.parse(text).name for (text,) in newest])


def listed_under(parent: ResourceId, kind: Kind) -> str:
    """The key that the resources of a kind inside `parent` are listed under."""
    return parent_key(parent.workspace_id) if kind is Kind.WORKSPACE else parent.key


def parent_key(id: ResourceId) -> str:
    """The key a resource is listed under: its parent, or a workspace's resource group."""
    return id.key.rpartition("/workspaces/")[0] if id.kind is Kind.WORKSPACE else id.parent.key


def _owner_and_more(record: Record) -> tuple[str, str]:
    more = dict(record.more)
    return more.pop(OWNER, ""), json.dumps(more)
