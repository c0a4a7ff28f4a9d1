"""A bucket is a file share or a blob container: which one a line is about, and what both can be asked."""

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
class Address:
    """What `--destination` or `--source` of a batch says: a bucket, a path in it, and maybe the account."""

    name: str
    path: str = ""
    account: str = ""

    @classmethod
    def of(cls, text: str) -> Address:
        """`data`, `data/logs`, or the URL of either."""
        scheme, sign, rest = text.partition("://")
        host, _, place = rest.partition("/") if sign and scheme in ("http", "https") else ("", "", text)
        name, _, path = place.partition("?")[0].strip("/").partition("/")
        return cls(name, path, host.partition(".")[0])

    def below(self, path: str | None) -> str:
        """The path in the bucket, with another one below it."""
        return "/".join(part for part in (self.path, path) if part)


@dataclass(frozen=True)
class Bucket:
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
        """All regular files below a folder, however deep, by path."""
        files: list[ShareFile] = []
        for item in self.storage.list(self.name, path) if depth < _DEPTH else ():
            if item.is_directory:
                files += self.files(item.path, depth=depth + 1)
            elif item.is_file:
                files.append(item)
        return files

    def create(self) -> dict[str, bool]:
        """Makes it unless it is there; what `az` says of that."""
        is_there = self.is_there
        self.storage.make(self.name)
        return {"created": not is_there}

    def exists(self) -> dict[str, bool]:
        """Whether it is there, as `az` says it."""
        return {"exists": self.is_there}

    def delete(self) -> dict[str, bool]:
        """Deletes it with all in it."""
        self.storage.remove(self.name)
        return {"deleted": True}

    def has(self, path: str, *, is_directory: bool) -> dict[str, bool]:
        """Whether a file, or a folder, is in it."""
        item = self.find(path) if self.is_there else None
        return {"exists": item is not None and item.is_directory is is_directory}

    def delete_item(self, path: str) -> dict[str, bool]:
        """Deletes a file or folder of it."""
        self.storage.delete(self.name, path)
        return {"deleted": True}


def share(context: Context, arguments: Namespace, name: str, *, account: str = "") -> Bucket:
    """The file share of that name, in the account, or else in that which the line is about."""
    return Bucket(context.storage, _full_name(context, arguments, name, account))


def container(context: Context, arguments: Namespace, name: str, *, account: str = "") -> Bucket:
    """The container of that name, in the account, or else in that which the line is about."""
    return Bucket(context.containers, _full_name(context, arguments, name, account))


def names(context: Context, arguments: Namespace, storage: Storage) -> list[str]:
    """The names of the account's shares or containers."""
    account = account_of(context, arguments, os.environ)
    full_names = [name.rpartition("/") for name in storage.shares()]
    return [name for owner, _, name in full_names if (owner or DEFAULT_ACCOUNT) == account]


def account_of(context: Context, arguments: Namespace, env: Mapping[str, str]) -> str:
    """The account: from the line, the environment, the settings; else the one that needs no name."""
    connection = arguments.connection_string or env.get("AZURE_STORAGE_CONNECTION_STRING") or ""
    pieces = dict(piece.partition("=")[::2] for piece in connection.split(";"))
    name = arguments.account_name or pieces.get("AccountName") or env.get("AZURE_STORAGE_ACCOUNT")
    return name or context.settings.storage_account or DEFAULT_ACCOUNT


def _full_name(context: Context, arguments: Namespace, name: str, account: str) -> str:
    account = account or account_of(context, arguments, os.environ)
    if account == DEFAULT_ACCOUNT:
        return name
    context.accounts.show(account)
    return f"{account}/{name}"
