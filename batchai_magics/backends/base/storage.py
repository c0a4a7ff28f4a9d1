"""Storage as backends offer it: groups, accounts, shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from batchai_magics.models.subscription import ResourceGroup, StorageAccount


@dataclass(frozen=True)
class ShareFile:
    """A file or folder on a share; `path` is relative to the share's root, with `/`."""

    path: str
    is_directory: bool
    size_bytes: int
    modified: datetime | None = None


class Storage(Protocol):
    """Shares (or blob containers): named trees of files that nodes mount.

    A share is `account/name`, or `name` in the account `local`. Paths are relative and cannot leave it.
    """

    def make(self, share: str) -> None:
        """Makes a share unless it is there."""

    def shares(self) -> Sequence[str]:
        """The names of all shares, sorted."""

    def upload(self, share: str, files: Mapping[str, bytes]) -> None:
        """Writes files (path → content); each appears whole or not at all."""

    def list(self, share: str, path: str = "") -> Sequence[ShareFile]:
        """One level of a folder, sorted by name."""

    def show(self, share: str, path: str) -> ShareFile:
        """A file or folder as it is now; NotFoundError when there is none."""

    def download(self, share: str, path: str) -> bytes:
        """A file's content; NotFoundError when there is none."""

    def delete(self, share: str, path: str) -> None:
        """Deletes a file, or a folder with all in it."""

    def remove(self, share: str) -> None:
        """Deletes a share with all in it; NotFoundError when there is none."""

    def read(self, share: str, path: str, offset: int, limit: int) -> bytes:
        """At most `limit` bytes of a file from `offset`; empty at its end."""

    def digest(self, share: str, path: str) -> str:
        """The SHA-256 (hex) of a file as it lies there; empty where the place cannot tell."""

    def begin(self, share: str, path: str, size_bytes: int) -> int:
        """Starts to upload a file in pieces, or goes on with it: gives the offset to send from."""

    def write(self, share: str, path: str, offset: int, data: bytes) -> None:
        """The next piece of a file that `begin` started. The file itself does not change yet."""

    def finish(self, share: str, path: str, sha256: str) -> None:
        """Puts the uploaded file in its place if its digest (hex) is right; StorageError otherwise."""


class Groups(Protocol):
    """Resource groups. What is created in a group that is not there makes it."""

    def create(self, name: str, location: str, tags: Mapping[str, str] | None = None) -> ResourceGroup:
        """Makes a group, or changes its tags."""

    def show(self, name: str) -> ResourceGroup:
        """The group; NotFoundError with code ResourceGroupNotFound when there is none."""

    def list(self) -> Sequence[ResourceGroup]:
        """All groups, by name."""

    def delete(self, name: str) -> None:
        """Deletes a group with all workspaces and storage accounts in it; jobs are ended first."""


class Accounts(Protocol):
    """Storage accounts. Names are unique over all groups, and told apart in small letters."""

    def create(self, name: str, group: str, location: str, sku: str = "Standard_LRS") -> StorageAccount:
        """Makes an account, or returns the one of that name in that group; ConflictError in another."""

    def show(self, name: str) -> StorageAccount:
        """The account; NotFoundError with code StorageAccountNotFound when there is none."""

    def list(self, group: str | None = None) -> Sequence[StorageAccount]:
        """The accounts of a group, or all, by name."""

    def keys(self, name: str) -> tuple[str, str]:
        """The two keys of an account."""

    def renew_key(self, name: str, number: int) -> None:
        """Makes a new key 1 or 2."""

    def delete(self, name: str) -> None:
        """Deletes an account with its shares and containers."""
