"""Which share or container of which account a line is about."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass

from batchai_magics.backends.base import ShareFile, Storage
from batchai_magics.commands.context import Context
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.errors import NotFoundError

_NO_RESOURCE = "ResourceNotFound"
_DEPTH = 64  # deeper than that, a folder is linked in itself


@dataclass(frozen=True)
class Place:
    """A share or a container: the storage that has it, and its name with its account."""

    storage: Storage
    name: str

    @property
    def is_there(self) -> bool:
        """Whether it exists."""
        return self.name in self.storage.shares()

    def file(self, path: str) -> ShareFile:
        """The file or folder at `path`; NotFoundError when there is none."""
        try:
            return self.storage.show(self.name, path)
        except NotFoundError as error:
            if error.code != _NO_RESOURCE:
                raise
            raise NotFoundError(f"The specified resource does not exist: {path!r}", code=error.code) from None

    def find(self, path: str) -> ShareFile | None:
        """The file or folder at `path`, or None."""
        try:
            return self.file(path)
        except NotFoundError:
            return None

    def files(self, path: str = "", *, depth: int = 0) -> list[ShareFile]:
        """All files below a folder, however deep, by path."""
        found = []
        for item in self.storage.list(self.name, path) if depth < _DEPTH else ():
            found += self.files(item.path, depth=depth + 1) if item.is_directory else [item]
        return found


def share(context: Context, arguments: Namespace, name: str) -> Place:
    """The file share of that name, in the account that the line is about."""
    return Place(context.storage, _full_name(context, arguments, name))


def container(context: Context, arguments: Namespace, name: str) -> Place:
    """The container of that name, in the account that the line is about."""
    return Place(context.containers, _full_name(context, arguments, name))


def names(context: Context, arguments: Namespace, storage: Storage) -> list[str]:
    """The names of the account's shares or containers."""
    account = account_of(context, arguments, os.environ)
    found = [name.rpartition("/") for name in storage.shares()]
    return [name for owner, _, name in found if (owner or DEFAULT_ACCOUNT) == account]


def account_of(context: Context, arguments: Namespace, env: Mapping[str, str]) -> str:
    """The account: from the line, the environment, the settings; else the one that needs no name."""
    connection = arguments.connection_string or env.get("AZURE_STORAGE_CONNECTION_STRING") or ""
    pieces = dict(piece.partition("=")[::2] for piece in connection.split(";"))
    told = arguments.account_name or pieces.get("AccountName") or env.get("AZURE_STORAGE_ACCOUNT")
    return told or context.settings.storage_account or DEFAULT_ACCOUNT


def _full_name(context: Context, arguments: Namespace, name: str) -> str:
    account = account_of(context, arguments, os.environ)
    if account == DEFAULT_ACCOUNT:
        return name
    context.accounts.show(account)
    return f"{account}/{name}"
