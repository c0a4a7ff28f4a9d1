"""Resumable transfers of files to and from a share, in pieces, built on a storage's other methods.

A storage on this machine has shorter ways.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from batchai_magics.errors import StorageError

if TYPE_CHECKING:
    from batchai_magics.backends.base.storage import Copy, ShareFile, Storage


BLOCK_BYTES = 4 << 20
STALE_S = 24 * 3600.0  # after this time, an unfinished upload is never resumed
RESUME_HINT = "Run the same line again to resume."
_MARK_LENGTH = 12


class DefaultTransfers:
    """Default `send` and `fetch` of a storage: file by file, in pieces of 4 MiB."""

    def send(self: Storage, share: str, copies: Sequence[Copy]) -> Generator[int, None, Sequence[ShareFile]]:
        """Uploads files, each atomically and with its digest checked; see `Storage.send`.

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

    def fetch(self: Storage, share: str, copies: Sequence[Copy]) -> Iterator[int]:
        """Downloads files, each atomically and with its digest checked; see `Storage.fetch`.

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
    what = "changed while it was read" if is_changed else "was corrupted in transit"
    return StorageError(f"{copy.path} {what}", hint="Run the same line again.")


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
            self._folders[folder] = _parts_in(Path(folder))
        for part in self._folders[folder].pop(name, ()):
            part.unlink(missing_ok=True)


def _parts_in(folder: Path) -> dict[str, list[Path]]:
    """The partial downloads in a folder, by the name of their file."""
    parts: dict[str, list[Path]] = {}
    for path in folder.glob(".*.part"):
        name, _, mark = path.name[1 : -len(".part")].rpartition(".")
        if len(mark) == _MARK_LENGTH and not set(mark) - set("0123456789abcdef"):
            parts.setdefault(name, []).append(path)
    return parts


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
