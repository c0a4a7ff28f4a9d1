"""Storage of backends: resource groups, accounts, shares."""

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
    """A local file and a path on a share; one becomes a copy of the other."""

    local_path: Path
    path: str
    size_bytes: int


class Storage(Protocol):
    """Shares (or blob containers): named trees of files that nodes mount.

    A share is `account/name`, or `name` in the account `local`. Paths are relative and cannot leave it.
    """

    def make(self, share: str) -> None:
        """Creates a share unless it exists."""

    def shares(self) -> Sequence[str]:
        """The names of all shares, sorted."""

    def upload(self, share: str, files: Mapping[str, bytes]) -> None:
        """Writes files (path → content), each atomically."""

    def list(self, share: str, path: str = "") -> Sequence[ShareFile]:
        """Lists a folder, sorted by name."""

    def show(self, share: str, path: str) -> ShareFile:
        """A file or folder; NotFoundError if it does not exist."""

    def download(self, share: str, path: str) -> bytes:
        """The content of a file; NotFoundError if it does not exist or is not a regular file."""

    def delete(self, share: str, path: str) -> None:
        """Deletes a file, a folder with its contents, or another entry; a link itself, not its target."""

    def remove(self, share: str) -> None:
        """Deletes a share with its contents; NotFoundError if it does not exist."""

    def read(self, share: str, path: str, offset: int, limit: int) -> bytes:
        """At most `limit` bytes of a file from `offset`; empty at its end."""

    def digest(self, share: str, path: str) -> str:
        """The SHA-256 (hex) of a file; empty if the storage cannot compute it."""

    def make_folder(self, share: str, path: str) -> None:
        """Creates a folder unless it exists; NotFoundError (ParentNotFound) if its parent does not exist."""

    def resize(self, share: str, path: str, size_bytes: int) -> None:
        """Truncates a file, or extends it with zeros; creates it if necessary."""

    def change(self, share: str, path: str, offset: int, data: bytes) -> None:
        """Writes into an existing file at an offset, immediately."""

    def clear(self, share: str, path: str, offset: int, size_bytes: int) -> None:
        """Fills a range of an existing file with zeros, as a hole where possible."""

    def rename(self, share: str, path: str, new_path: str) -> None:
        """Renames a file or folder on its share, replacing an existing file."""

    def begin(self, share: str, path: str, size_bytes: int) -> int:
        """Starts or resumes the upload of a file; returns the offset to send from."""

    def write(self, share: str, path: str, offset: int, data: bytes) -> None:
        """Writes the next block of a file started by `begin`; the file itself does not change yet."""

    def finish(self, share: str, path: str, sha256: str) -> None:
        """Publishes the uploaded file if its digest (hex) is correct; StorageError otherwise."""

    def send(self, share: str, copies: Sequence[Copy]) -> Generator[int, None, Sequence[ShareFile]]:
        """Uploads files; each is published when it is complete and its digest is correct.

        Yields the number of bytes of each step, and returns the files. Interrupted uploads are resumed.
        """

    def fetch(self, share: str, copies: Sequence[Copy]) -> Iterator[int]:
        """Downloads files; each appears when it is complete and its digest is correct.

        Yields the number of bytes of each step. Interrupted downloads are resumed.
        """


class Groups(Protocol):
    """Resource groups. Creating something in a group that does not exist creates the group."""

    def create(self, name: str, location: str, tags: Mapping[str, str] | None = None) -> ResourceGroup:
        """Creates a group, or changes its tags."""

    def show(self, name: str) -> ResourceGroup:
        """The group; NotFoundError with code ResourceGroupNotFound if it does not exist."""

    def list(self) -> Sequence[ResourceGroup]:
        """All groups, sorted by name."""

    def delete(self, name: str) -> None:
        """Deletes a group with all its workspaces and storage accounts; jobs are ended first."""


class Accounts(Protocol):
    """Storage accounts. Names are unique over all groups, and matched case-insensitively."""

    def create(self, name: str, group: str, location: str, sku: str = "Standard_LRS") -> StorageAccount:
        """Creates an account, or returns the existing one; ConflictError if it is in another group."""

    def show(self, name: str) -> StorageAccount:
        """The account; NotFoundError with code StorageAccountNotFound if it does not exist."""

    def list(self, group: str | None = None) -> Sequence[StorageAccount]:
        """The accounts of a group, or all accounts, sorted by name."""

    def keys(self, name: str) -> tuple[str, str]:
        """The two keys of an account."""

    def renew_key(self, name: str, number: int) -> None:
        """Replaces key 1 or 2."""

    def delete(self, name: str) -> None:
        """Deletes an account with its shares and containers."""
