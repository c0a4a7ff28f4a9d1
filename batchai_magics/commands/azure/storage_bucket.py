"""A bucket (file share or blob container): how a line names it, and its operations."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass

from batchai_magics.backends.base import ShareFile, Storage
from batchai_magics.commands.command_context import Context
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.errors import NotFoundError

_NO_RESOURCE = "ResourceNotFound"
_DEPTH = 64  # deeper nesting is a link cycle


@dataclass(frozen=True)
class BucketAddress:
    """The `--destination` or `--source` of a batch: a bucket, a path in it, perhaps an account."""

    name: str
    path: str = ""
    account: str = ""

    @classmethod
    def of(cls, text: str) -> BucketAddress:
        """Parses `data`, `data/logs`, or the URL of either."""
        scheme, sign, rest = text.partition("://")
        host, _, place = rest.partition("/") if sign and scheme in ("http", "https") else ("", "", text)
        name, _, path = place.partition("?")[0].strip("/").partition("/")
        return cls(name, path, host.partition(".")[0])

    def below(self, path: str | None) -> str:
        """The path in the bucket joined with another one."""
        return "/".join(part for part in (self.path, path) if part)


@dataclass(frozen=True)
class Bucket:
    """A share or container: its storage, and its name as `NAME` or `ACCOUNT/NAME`."""

    storage: Storage
    name: str

    @property
    def is_there(self) -> bool:
        """Whether the bucket exists."""
        return self.name in self.storage.shares()

    def file(self, path: str) -> ShareFile:
        """The file or folder at `path`; raises NotFoundError if it does not exist."""
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
        """All regular files below a folder, recursively."""
        files: list[ShareFile] = []
        for item in self.storage.list(self.name, path) if depth < _DEPTH else ():
            if item.is_directory:
                files += self.files(item.path, depth=depth + 1)
            elif item.is_file:
                files.append(item)
        return files

    def create(self) -> dict[str, bool]:
        """Creates the bucket unless it exists; returns the output of `az`."""
        is_there = self.is_there
        self.storage.make(self.name)
        return {"created": not is_there}

    def exists(self) -> dict[str, bool]:
        """Whether the bucket exists, as the output of `az`."""
        return {"exists": self.is_there}

    def delete(self) -> dict[str, bool]:
        """Deletes the bucket with its content."""
        self.storage.remove(self.name)
        return {"deleted": True}

    def has(self, path: str, *, is_directory: bool) -> dict[str, bool]:
        """Whether the bucket contains that file or folder."""
        item = self.find(path) if self.is_there else None
        return {"exists": item is not None and item.is_directory is is_directory}

    def delete_item(self, path: str) -> dict[str, bool]:
        """Deletes a file or folder."""
        self.storage.delete(self.name, path)
        return {"deleted": True}


def share(context: Context, arguments: Namespace, name: str, *, account: str = "") -> Bucket:
    """The file share of that name, in `account` or the account of the line."""
    return Bucket(context.storage, _full_name(context, arguments, name, account))


def container(context: Context, arguments: Namespace, name: str, *, account: str = "") -> Bucket:
    """The container of that name, in `account` or the account of the line."""
    return Bucket(context.containers, _full_name(context, arguments, name, account))


def bucket_names(context: Context, arguments: Namespace, storage: Storage) -> list[str]:
    """The names of the account's shares or containers."""
    account = account_of(context, arguments, os.environ)
    full_names = [name.rpartition("/") for name in storage.shares()]
    return [name for owner, _, name in full_names if (owner or DEFAULT_ACCOUNT) == account]


def account_of(context: Context, arguments: Namespace, env: Mapping[str, str]) -> str:
    """The account of options, environment or settings, in that order, else the built-in one."""
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
