"""Storage accounts and resource groups of this machine."""

from __future__ import annotations

import base64
import json
import secrets
import shutil
import sqlite3
from collections.abc import Mapping, Sequence

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.service import api_errors
from batchai_magics.models.resource_ids import check_account_name, check_group_name
from batchai_magics.models.subscription import ResourceGroup, StorageAccount

SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"


class LocalAccounts:
    """The storage accounts of this machine."""

    def __init__(self, store: Store, layout: Layout) -> None:
        self._store, self._layout = store, layout

    def create(self, name: str, group: str, location: str, sku: str = "Standard_LRS") -> StorageAccount:
        """Creates an account, or returns the existing one of that group."""
        check_account_name(name)
        with self._store.write() as db:
            row = db.execute("SELECT * FROM account WHERE name = ?", (name,)).fetchone()
            if row and row["group_name"].lower() != group.lower():
                raise api_errors.account_taken(name)
            if not row:
                ensure_group(db, group, location)
                values = (name, group, location, sku, new_key(), new_key())
                db.execute("INSERT INTO account VALUES (?, ?, ?, ?, ?, ?)", values)
        return self.show(name)

    def show(self, name: str) -> StorageAccount:
        """The account with that name; raises NotFoundError."""
        return _account(self._row(name))

    def list(self, group: str | None = None) -> Sequence[StorageAccount]:
        """The accounts of a group, or all, by name."""
        with self._store.read() as db:
            rows = db.execute("SELECT * FROM account ORDER BY name").fetchall()
        return [_account(row) for row in rows if group is None or row["group_name"].lower() == group.lower()]

    def keys(self, name: str) -> tuple[str, str]:
        """The two keys of an account."""
        row = self._row(name)
        return row["key1"], row["key2"]

    def renew_key(self, name: str, number: int) -> None:
        """Regenerates key 1 or 2."""
        self._row(name)
        with self._store.write() as db:
            db.execute(f"UPDATE account SET key{int(number)} = ? WHERE name = ?", (new_key(), name))

    def delete(self, name: str) -> None:
        """Deletes an account with its shares and containers."""
        self._row(name)
        with self._store.write() as db:
            db.execute("DELETE FROM account WHERE name = ?", (name,))
        for kind in ("shares", "containers"):
            for root in (self._layout.home / kind, self._layout.unfinished(kind)):
                shutil.rmtree(root / name, ignore_errors=True)

    def _row(self, name: str) -> sqlite3.Row:
        with self._store.read() as db:
            row: sqlite3.Row | None = db.execute("SELECT * FROM account WHERE name = ?", (name,)).fetchone()
            names = [known for (known,) in db.execute("SELECT name FROM account ORDER BY name")]
        if row is None:
            raise api_errors.account_not_found(name, names)
        return row


class LocalGroups:
    """Resource groups of this machine; the backend deletes their contents."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(self, name: str, location: str, tags: Mapping[str, str] | None = None) -> ResourceGroup:
        """Creates a group, or changes its tags."""
        check_group_name(name)
        with self._store.write() as db:
            ensure_group(db, name, location)
            if tags is not None:
                db.execute(
                    "UPDATE resource_group SET tags = ? WHERE key = ?", (json.dumps(dict(tags)), name.lower())
                )
        return self.show(name)

    def show(self, name: str) -> ResourceGroup:
        """The group with that name; raises NotFoundError."""
        with self._store.read() as db:
            row = db.execute("SELECT * FROM resource_group WHERE key = ?", (name.lower(),)).fetchone()
        if row is None:
            raise api_errors.group_not_found(name)
        return _group(row)

    def list(self) -> Sequence[ResourceGroup]:
        """All groups, by name."""
        with self._store.read() as db:
            return [_group(row) for row in db.execute("SELECT * FROM resource_group ORDER BY key").fetchall()]

    def delete_record(self, name: str) -> None:
        """Deletes the row of an empty group."""
        self.show(name)
        with self._store.write() as db:
            db.execute("DELETE FROM resource_group WHERE key = ?", (name.lower(),))


def ensure_group(db: sqlite3.Connection, name: str, location: str) -> None:
    """Creates a group unless it exists, in an open transaction."""
    db.execute("INSERT OR IGNORE INTO resource_group VALUES (?, ?, ?, '{}')", (name.lower(), name, location))


def new_key() -> str:
    """A new storage account key in Azure's format."""
    return base64.b64encode(secrets.token_bytes(64)).decode()


def _account(row: sqlite3.Row) -> StorageAccount:
    return StorageAccount(SUBSCRIPTION, row["group_name"], row["name"], row["location"], row["sku"])


def _group(row: sqlite3.Row) -> ResourceGroup:
    return ResourceGroup(SUBSCRIPTION, row["name"], row["location"], json.loads(row["tags"]))
