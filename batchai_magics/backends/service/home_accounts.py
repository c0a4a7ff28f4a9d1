"""Storage accounts of a home, rows that are files, and the protection of shares that jobs use."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from batchai_magics.backends.base import api_errors
from batchai_magics.backends.folders import mounts, private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.shares import FolderStorage
from batchai_magics.backends.service import resource_views, stored_descriptions
from batchai_magics.backends.service.context import CLUSTER_SPEC, HomeContext, HomeStorage
from batchai_magics.backends.service.file_repository import locked
from batchai_magics.backends.service.home_subscription import SUBSCRIPTION, HomeGroups, Rows
from batchai_magics.models.resource_ids import check_account_name
from batchai_magics.models.subscription import StorageAccount
from batchai_magics.untrusted_files import read_json


class FileRows:
    """Rows that are files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, name: str) -> dict[str, Any] | None:
        """The row of that name; None if it does not exist."""
        return _read(self._file(name))

    def all(self) -> list[dict[str, Any]]:
        """All rows, sorted by name."""
        files = sorted(self._folder.glob("*.json"), key=lambda file: file.stem)
        return [row for file in files if (row := _read(file)) is not None]

    def insert(self, name: str, row: Mapping[str, Any]) -> None:
        """Adds a row unless it exists."""
        private_files.write_new(self._file(name), json.dumps(row))

    def change(self, name: str, **values: Any) -> None:
        """Changes values of a row under a lock."""
        file = self._file(name)
        with locked(file.with_suffix(".lock")):
            private_files.write(file, json.dumps({**(_read(file) or {}), **values}))

    def delete(self, name: str) -> None:
        """Deletes a row, if it exists."""
        self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self._folder / f"={name.lower()}.json"


class HomeAccounts:
    """The storage accounts of a home, protected while `users` use their contents."""

    def __init__(
        self, layout: Layout, groups: HomeGroups, rows: Rows, *, users: ShareUsers | None = None
    ) -> None:
        self._layout, self._groups, self._rows, self._users = layout, groups, rows, users

    def create(self, name: str, group: str, location: str, sku: str = "Standard_LRS") -> StorageAccount:
        """Creates an account, or returns the existing one of that name and group."""
        check_account_name(name)
        row = {"name": name, "group": group, "location": location, "sku": sku}
        self._rows.insert(name, {**row, "key1": _new_key(), "key2": _new_key()})
        found = self._row(name)
        if found["group"].lower() != group.lower():
            raise api_errors.account_taken(name)
        self._groups.ensure(group, location)
        return _account(found)

    def show(self, name: str) -> StorageAccount:
        """The account of that name; NotFoundError if it does not exist."""
        return _account(self._row(name))

    def list(self, group: str | None = None) -> Sequence[StorageAccount]:
        """The accounts of a group, or all accounts, sorted by name."""
        rows = self._rows.all()
        return [_account(row) for row in rows if group is None or row["group"].lower() == group.lower()]

    def keys(self, name: str) -> tuple[str, str]:
        """The two keys of an account."""
        row = self._row(name)
        return row["key1"], row["key2"]

    def renew_key(self, name: str, number: int) -> None:
        """Replaces key 1 or 2."""
        self._row(name)
        self._rows.change(name, **{f"key{int(number)}": _new_key()})

    def delete(self, name: str) -> None:
        """Deletes an account with its shares and containers; ConflictError while an open job uses one."""
        self._row(name)
        if self._users and (names := self._users.of(self._layout.of_account(name))):
            raise api_errors.account_in_use(name, names)
        self._rows.delete(name)
        for kind in ("shares", "containers"):
            for root in (self._layout.home / kind, self._layout.unfinished(kind)):
                private_files.remove_folder(root / name)

    def _row(self, name: str) -> dict[str, Any]:
        row = self._rows.find(name)
        if row is None:
            raise api_errors.account_not_found(name, [row["name"] for row in self._rows.all()])
        return row


def _read(file: Path) -> dict[str, Any] | None:
    try:
        row: dict[str, Any] = read_json(file)
    except FileNotFoundError:
        return None
    return row


def _new_key() -> str:
    """A random key in Azure's format."""
    return base64.b64encode(secrets.token_bytes(64)).decode()


def _account(row: Mapping[str, Any]) -> StorageAccount:
    return StorageAccount(SUBSCRIPTION, row["group"], row["name"], row["location"], row["sku"])


class ShareUsers:
    """Finds which open jobs use which folders of a home."""

    def __init__(self, layout: Layout, context: HomeContext) -> None:
        self._layout, self._context = layout, context

    def of(self, folders: Sequence[Path]) -> list[str]:
        """The names of the open jobs that use one of these folders."""
        names = []
        for job, _, _ in self._context.all_open_runs():
            cluster = resource_views.cluster_spec(job.more[CLUSTER_SPEC])
            used = mounts.used_by(self._layout, stored_descriptions.job_spec(job.spec), cluster)
            if any(path.is_relative_to(folder) for path in used for folder in folders):
                names.append(job.name)
        return names


class GuardedStorage(FolderStorage):
    """The shares or containers of a home, protected while jobs use them."""

    def __init__(self, root: Path, unfinished: Path, noun: str, *, users: ShareUsers) -> None:
        super().__init__(root, unfinished, noun)
        self._users = users

    def remove(self, share: str) -> None:
        """Deletes a share with its contents; ConflictError while an open job uses it."""
        names = self._users.of([self._existing_folder(share)])
        if names:
            raise api_errors.share_in_use(share, names)
        super().remove(share)


def home_storage(layout: Layout, context: HomeContext, groups: HomeGroups, rows: Rows) -> HomeStorage:
    """The storage of a home, guarded against deletion while jobs use it.

    `rows` are those of the accounts.
    """
    users = ShareUsers(layout, context)

    def folders(kind: str, noun: str) -> GuardedStorage:
        return GuardedStorage(layout.home / kind, layout.unfinished(kind), noun, users=users)

    accounts = HomeAccounts(layout, groups, rows, users=users)
    return HomeStorage(folders("shares", "share"), folders("containers", "container"), accounts, groups)
