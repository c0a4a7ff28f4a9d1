"""Storage as backends offer it: groups, accounts, shares."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from batchai_magics.models.job_execution import FileKind

if TYPE_CHECKING:
    from batchai_magics.models.subscription import ResourceGroup, StorageAccount


@dataclass(frozen=True)
class ShareFile:
    """A file, a folder or something else on a share; `path` is relative to the share's root, with `/`."""

    path: str
    kind: FileKind
    size_bytes: int
    modified: datetime | None = None

    @property
    def is_directory(self) -> bool:
        """Whether it is a folder."""
        return self.kind is FileKind.DIRECTORY

    @property
    def is_file(self) -> bool:
        """Whether it has bytes that can be read."""
        return self.kind is FileKind.FILE


@dataclass(frozen=True)
class Copy:
    """A file of this machine and its path on a share; one of them is to become a copy of the other."""

    here: Path
    there: str
    size_bytes: int


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
        """A file's content; NotFoundError when there is none, or when it is something else."""

    def delete(self, share: str, path: str) -> None:
        """Deletes a file, a folder with all in it, or what else lies there; a link, not what it leads to."""

    def remove(self, share: str) -> None:
        """Deletes a share with all in it; NotFoundError when there is none."""

    def read(self, share: str, path: str, offset: int, limit: int) -> bytes:
        """At most `limit` bytes of a file from `offset`; empty at its end."""

    def digest(self, share: str, path: str) -> str:
        """The SHA-256 (hex) of a file as it lies there; empty where the place cannot tell."""

    def make_folder(self, share: str, path: str) -> None:
        """Makes a folder unless it is there; NotFoundError (ParentNotFound) where it would have no parent."""

    def resize(self, share: str, path: str, size_bytes: int) -> None:
        """Gives a file that size: cut at its end, or with zeros there. Makes the file if there is none."""

    def change(self, share: str, path: str, offset: int, data: bytes) -> None:
        """Writes into a file that is there, at that place and at once."""

    def clear(self, share: str, path: str, offset: int, size_bytes: int) -> None:
        """Makes zeros of a part of a file that is there; where it can be, they take no room."""

    def rename(self, share: str, path: str, new_path: str) -> None:
        """Gives a file or a folder another name on its share, in place of a file that had that name."""

    def begin(self, share: str, path: str, size_bytes: int) -> int:
        """Starts to upload a file in pieces, or goes on with it: gives the offset to send from."""

    def write(self, share: str, path: str, offset: int, data: bytes) -> None:
        """The next piece of a file that `begin` started. The file itself does not change yet."""

    def finish(self, share: str, path: str, sha256: str) -> None:
        """Puts the uploaded file in its place if its digest (hex) is right; StorageError otherwise."""

    def send(self, share: str, copies: Sequence[Copy]) -> Generator[int, None, Sequence[ShareFile]]:
        """Uploads files; each appears on the share when all of it is there and its digest is right.

        Gives how many bytes are done as it goes, and at last the files. What was interrupted goes on.
        """

    def fetch(self, share: str, copies: Sequence[Copy]) -> Iterator[int]:
        """Downloads files; each appears when all of it is there and its digest is right.

        Gives how many bytes are done as it goes. What was interrupted goes on.
        """


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
