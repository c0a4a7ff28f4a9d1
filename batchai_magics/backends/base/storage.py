"""The facets of storage: file shares or blob containers, the accounts and resource groups they belong to.

Transfers are resumable, in pieces of 4 MiB; storage on this machine copies files directly instead.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from batchai_magics.errors import StorageError
from batchai_magics.models.job_execution import FileKind

if TYPE_CHECKING:
    from batchai_magics.models.subscription import ResourceGroup, StorageAccount


BLOCK_BYTES = 4 << 20
STALE_S = 24 * 3600.0  # after this time, an unfinished upload is never resumed
RESUME_HINT = "Run the same line again to resume."
_MARK_LENGTH = 12


@dataclass(frozen=True)
class ShareFile:
    """A file, folder or special file on a share; `path` is relative to the share's root, with `/`.

    `size_bytes` is 0 for anything but a file; `modified` is in UTC, None where the backend does not know it.
    """

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
    """A transfer, in either direction, between the file `local_path` and `path` on a share."""

    local_path: Path
    path: str
    size_bytes: int


class Storage(Protocol):
    """Shares (or blob containers): named trees of files that nodes mount.

    A share is `account/name`, or `name` in the account `local`. Paths are relative to the share, with `/`.

    Every method raises SpecError for an invalid share name, NotFoundError (ShareNotFound or
    ContainerNotFound) for a missing share, and StorageError for a path that leaves the share, by `..` or by a
    link, or for a failed disk. A missing file is NotFoundError with code ResourceNotFound.
    """

    def make(self, share: str) -> None:
        """Creates a share unless it exists."""

    def shares(self) -> Sequence[str]:
        """The names of all shares, sorted; for accounts other than `local`, as `account/name`."""

    def has(self, share: str) -> bool:
        """Whether there is a share of that name; False for an invalid one."""
        return share in self.shares()

    def upload(self, share: str, files: Mapping[str, bytes]) -> None:
        """Writes files (path → content) and the folders they are in, each file atomically."""

    def list(self, share: str, path: str = "") -> Sequence[ShareFile]:
        """One level of a folder, sorted by name; a link that is outside the share is listed as a link."""

    def show(self, share: str, path: str) -> ShareFile:
        """The properties of a file or folder; NotFoundError if there is nothing at that path."""

    def download(self, share: str, path: str) -> bytes:
        """The content of a file; NotFoundError if there is nothing at that path, or no regular file."""

    def delete(self, share: str, path: str) -> None:
        """Deletes a file, a folder with everything in it, a special file, or a link without its target.

        Raises:
            NotFoundError: There is nothing at that path.
        """

    def remove(self, share: str) -> None:
        """Deletes a share with everything in it; ConflictError if jobs that have not ended use it."""

    def read(self, share: str, path: str, offset: int, limit: int) -> bytes:
        """At most `limit` bytes of a file from the byte `offset` on; empty at its end.

        Raises:
            NotFoundError: There is nothing at that path, or no regular file.
        """

    def digest(self, share: str, path: str) -> str:
        """The SHA-256 (hex) of a stored file; empty if the service does not compute it.

        Raises:
            NotFoundError: There is nothing at that path, or no regular file.
        """

    def make_folder(self, share: str, path: str) -> None:
        """Creates a folder unless it exists.

        Raises:
            NotFoundError: Its parent folder does not exist (code ParentNotFound).
        """

    def resize(self, share: str, path: str, size_bytes: int) -> None:
        """Sets the size of a file by truncating it or appending zeros; creates a missing file."""

    def change(self, share: str, path: str, offset: int, data: bytes) -> None:
        """Overwrites part of an existing file from the byte `offset` on, in place."""

    def clear(self, share: str, path: str, offset: int, size_bytes: int) -> None:
        """Sets part of an existing file to zeros, as a sparse range where the file system has those."""

    def rename(self, share: str, path: str, new_path: str) -> None:
        """Renames a file or folder on its share; replaces a file that has the new name."""

    def begin(self, share: str, path: str, size_bytes: int) -> int:
        """Starts or resumes an upload in pieces.

        Args:
            share: The share.
            path: The path that the file gets.
            size_bytes: The size of the whole file; stored bytes beyond it are discarded.

        Returns:
            The byte offset to send from: 0, or the bytes that an interrupted upload has stored.
        """

    def write(self, share: str, path: str, offset: int, data: bytes) -> None:
        """Stores the next piece of an upload at its byte `offset`; the file itself does not change yet."""

    def finish(self, share: str, path: str, sha256: str) -> None:
        """Moves an uploaded file to its path atomically.

        Raises:
            StorageError: The digest of the uploaded bytes is not `sha256` (hex); they are discarded.
        """

    def send(self, share: str, copies: Sequence[Copy]) -> Generator[int, None, Sequence[ShareFile]]:
        """Uploads files, each atomically and with its digest checked; an interrupted upload is resumed.

        Yields:
            The bytes that were stored since the last one.

        Returns:
            The stored files, in the order of `copies`.

        Raises:
            StorageError: A file of this machine cannot be read, changed while it was sent, or was damaged.
        """
        for copy in copies:
            with naming(copy, "read"):
                offset = self.begin(share, copy.path, copy.size_bytes)
                try:
                    yield from _upload(self, share, copy, offset)
                except StorageError:
                    if not offset:
                        raise
                    # The partial upload belonged to another file of this name; the backend has deleted it.
                    restart = self.begin(share, copy.path, copy.size_bytes)
                    yield from (0 for _ in _upload(self, share, copy, restart))
        return [self.show(share, copy.path) for copy in copies]

    def fetch(self, share: str, copies: Sequence[Copy]) -> Iterator[int]:
        """Downloads files, each atomically and with its digest checked; an interrupted download is resumed.

        Yields:
            The bytes that were received since the last one.

        Raises:
            NotFoundError: There is no such file on the share.
            StorageError: A file of this machine cannot be written, or the stored one changed or was damaged.
        """
        partial = PartialDownloads()
        for copy in copies:
            with naming(copy, "written"):
                source = self.show(share, copy.path)
                part = PartialDownloads.name(
                    copy.local_path, f"{share}/{source.path} {source.size_bytes} {source.modified}"
                )
                part.parent.mkdir(parents=True, exist_ok=True)
                is_resumed = part.exists()
                is_intact = yield from _download(self, share, source, part)
                if not is_intact and is_resumed and self.show(share, copy.path) == source:
                    # the partial download was damaged, and has been deleted
                    is_intact = yield from _uncounted(_download(self, share, source, part))
                is_same = self.show(share, copy.path) == source
                if not (is_intact and is_same):
                    part.unlink(missing_ok=True)
                    raise transfer_error(copy, is_changed=not is_same)
                part.replace(copy.local_path)
                partial.drop(copy.local_path)


class Groups(Protocol):
    """Resource groups. Creating a resource or account in a missing group creates the group."""

    def create(self, name: str, location: str, tags: Mapping[str, str] | None = None) -> ResourceGroup:
        """Creates a group, or changes the tags of an existing one."""

    def show(self, name: str) -> ResourceGroup:
        """The group of a name; NotFoundError if it does not exist (code ResourceGroupNotFound)."""

    def list(self) -> Sequence[ResourceGroup]:
        """All groups, sorted by name."""

    def delete(self, name: str) -> None:
        """Deletes a group with all workspaces and storage accounts in it; jobs are terminated first.

        Raises:
            NotFoundError: It does not exist (code ResourceGroupNotFound).
        """


class Accounts(Protocol):
    """Storage accounts. Names are unique over all groups, and matched case-insensitively."""

    def create(self, name: str, group: str, location: str, sku: str = "Standard_LRS") -> StorageAccount:
        """Creates an account, or returns the one of that name in that group.

        Raises:
            ConflictError: Another group has an account of that name.
            SpecError: The name is not 3 to 24 lower-case letters and digits.
        """

    def show(self, name: str) -> StorageAccount:
        """The account of a name; NotFoundError if it does not exist (code StorageAccountNotFound)."""

    def list(self, group: str | None = None) -> Sequence[StorageAccount]:
        """The accounts of a group, or with None of all groups, sorted by name."""

    def keys(self, name: str) -> tuple[str, str]:
        """The two keys of an account, in base64; NotFoundError if the account does not exist."""

    def renew_key(self, name: str, number: int) -> None:
        """Replaces key 1 or 2; signatures made with the old one become invalid.

        Raises:
            NotFoundError: The account does not exist.
        """

    def delete(self, name: str) -> None:
        """Deletes an account with its shares and containers.

        Raises:
            ConflictError: Jobs that have not ended use its shares.
            NotFoundError: The account does not exist.
        """


@contextlib.contextmanager
def naming(copy: Copy, done: str) -> Iterator[None]:
    """Translates an OSError to a StorageError that names the local file, which could not be `done`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"{copy.local_path} cannot be {done}: {reason}", hint=RESUME_HINT) from error


def transfer_error(copy: Copy, *, is_changed: bool) -> StorageError:
    """The StorageError for a file that changed during its transfer, or was damaged by it."""
    fault = "changed while it was read" if is_changed else "was corrupted in transit"
    return StorageError(f"{copy.path} {fault}", hint="Run the same line again.")


class PartialDownloads:
    """The partial files of interrupted downloads; each folder is searched once."""

    def __init__(self) -> None:
        self._folders: dict[str, dict[str, list[Path]]] = {}

    @staticmethod
    def name(target: Path, identity: str) -> Path:
        """The path of a partial download, from its target and `identity`, the version of the source."""
        return Path(PartialDownloads.path(str(target), identity))

    @staticmethod
    def path(target: str, identity: str) -> str:
        """The same path as text, which is faster for thousands of files."""
        mark = hashlib.sha256(identity.encode()).hexdigest()[:_MARK_LENGTH]
        folder, name = os.path.split(target)
        return f"{folder}/.{name}.{mark}.part" if folder else f".{name}.{mark}.part"

    def drop(self, target: str | Path) -> None:
        """Deletes partial downloads of other versions of the target's source."""
        folder, name = os.path.split(target)
        if folder not in self._folders:
            parts: dict[str, list[Path]] = {}  # by the name of their file
            for path in Path(folder).glob(".*.part"):
                source, _, mark = path.name[1 : -len(".part")].rpartition(".")
                if len(mark) == _MARK_LENGTH and not set(mark) - set("0123456789abcdef"):
                    parts.setdefault(source, []).append(path)
            self._folders[folder] = parts
        for part in self._folders[folder].pop(name, ()):
            part.unlink(missing_ok=True)


def _upload(storage: Storage, share: str, copy: Copy, offset: int) -> Iterator[int]:
    digest = hashlib.sha256()
    with copy.local_path.open("rb") as file:
        for data in _blocks(file, offset):
            digest.update(data)
            yield len(data)
        while data := file.read(BLOCK_BYTES):
            digest.update(data)
            storage.write(share, copy.path, offset, data)
            offset += len(data)
            yield len(data)
    storage.finish(share, copy.path, digest.hexdigest())


def _blocks(file: BinaryIO, size: int) -> Iterator[bytes]:
    remaining = size
    while remaining and (data := file.read(min(BLOCK_BYTES, remaining))):
        remaining -= len(data)
        yield data


def _download(storage: Storage, share: str, source: ShareFile, part: Path) -> Generator[int, None, bool]:
    """Reads what `part` lacks of a file; returns whether it is then correct, else deletes it."""
    digest = hashlib.sha256()
    with part.open("a+b") as file:
        file.seek(0)
        for data in _blocks(file, source.size_bytes):
            digest.update(data)
            yield len(data)
        file.truncate()
        while data := storage.read(share, source.path, file.tell(), BLOCK_BYTES):
            digest.update(data)
            file.write(data)
            yield len(data)
        size_bytes = file.tell()
    expected = storage.digest(share, source.path)
    is_intact = size_bytes == source.size_bytes and expected in ("", digest.hexdigest())
    if not is_intact:
        part.unlink()
    return is_intact


def _uncounted(steps: Generator[int, None, bool]) -> Generator[int, None, bool]:
    """The same steps, reported as 0 bytes, since they were reported before."""
    try:
        while True:
            next(steps)
            yield 0
    except StopIteration as end:
        return bool(end.value)
