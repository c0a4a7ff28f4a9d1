"""Unfinished uploads: a file appears on its share when its last byte has arrived, or never.

Azure shows a file, filled with zeros, from its creation. Here only its uploader sees it, so jobs never read
partial files. Bytes go to a part file beside the target; a note in the home lets a restart delete leftovers.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from batchai_magics.backends.base import Backend, Storage
from batchai_magics.backends.base.storage import STALE_S
from batchai_magics.backends.folders.private_files import write
from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.server.storage.storage_metadata import EMPTY_RECORD, StorageRecord
from batchai_magics.server.storage.storage_resource import StorageResource, storage_of

_PREFIX = ".part-"
_NAME = re.compile(rf"{re.escape(_PREFIX)}[0-9a-f]{{32}}")


def is_part(path: str) -> bool:
    """Whether it is a part file, which no listing shows."""
    return _NAME.fullmatch(PurePosixPath(path).name) is not None


class PartFiles:
    """Notes on part files, one JSON file each; those left by dead servers are deleted at startup."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, resource: StorageResource) -> str:
        """Registers a new part file beside a file and returns its unique path."""
        name = uuid.uuid4().hex
        part = str(PurePosixPath(resource.path).with_name(f"{_PREFIX}{name}"))
        location = {"service": resource.service, "share": resource.backend_share, "path": part}
        write(self._folder / f"{name}.json", json.dumps({**location, "pid": os.getpid()}))
        return part

    def end(self, part: str) -> None:
        """Removes the note of a part file that was moved into place or deleted."""
        name = PurePosixPath(part).name.removeprefix(_PREFIX)
        (self._folder / f"{name}.json").unlink(missing_ok=True)

    def sweep(self, backend: Backend) -> None:
        """Deletes part files of dead servers, and those not written to for a day."""
        for note in self._folder.glob("*.json") if self._folder.exists() else ():
            with contextlib.suppress(BatchAIError, ValueError, KeyError):  # its share may be gone
                data = json.loads(note.read_text(encoding="utf-8"))
                storage = storage_of(backend, data["service"])
                share, part = data["share"], data["path"]
                if _is_running(int(data["pid"])) and not _is_stale(storage, share, part):
                    continue
                storage.delete(share, part)
            note.unlink(missing_ok=True)


def _is_running(pid: int) -> bool:
    """Whether the server that wrote a note is alive, such as another one with the same home."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _is_stale(storage: Storage, share: str, part: str) -> bool:
    """Whether the upload was abandoned: its pid may have been reused by another process."""
    try:
        modified = storage.show(share, part).modified
    except NotFoundError:  # about to be created
        return False
    return modified is not None and modified.timestamp() < time.time() - STALE_S


@dataclass
class UnfinishedFile:
    """An unfinished upload: its part file, and the ranges received so far."""

    part: str
    size_bytes: int
    last_write: float  # time of the last write
    record: StorageRecord = EMPTY_RECORD
    ranges: list[tuple[int, int]] = field(default_factory=list)

    def add(self, start: int, end: int) -> bool:
        """Records a range; True if the file is complete."""
        merged: list[tuple[int, int]] = []
        for low, high in sorted([*self.ranges, (start, end)]):
            if merged and low <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        self.ranges = merged
        return merged == [(0, self.size_bytes)]


@dataclass
class UncommittedBlocks:
    """The uncommitted blocks of a blob: part files by block id."""

    parts: dict[str, str]
    last_write: float  # time of the last write


class UnfinishedUploads:
    """All unfinished uploads of a server. They do not survive a restart."""

    def __init__(self, parts: PartFiles, backend: Backend, *, clock: Callable[[], float] = time.time) -> None:
        self.parts, self._backend, self._clock = parts, backend, clock
        self._lock = threading.Lock()
        self._open: dict[StorageResource, UnfinishedFile] = {}
        self._blocks: dict[StorageResource, UncommittedBlocks] = {}

    def begin(self, resource: StorageResource, size_bytes: int, record: StorageRecord = EMPTY_RECORD) -> bool:
        """Starts an upload; an existing file stays until it completes. True if it already has (empty)."""
        self.drop(resource)
        self.drop_stale(resource.service)
        storage, share = self._storage(resource), resource.backend_share
        with self.part_file(resource) as part:
            storage.resize(share, part, size_bytes)
            if size_bytes == 0:
                storage.rename(share, part, resource.path)
                self.parts.end(part)
                return True
        with self._lock:
            self._open[resource] = UnfinishedFile(part, size_bytes, self._clock(), record)
        return False

    @contextlib.contextmanager
    def part_file(self, resource: StorageResource) -> Iterator[str]:
        """The path of a new part file; it is deleted if the block raises."""
        part = self.parts.begin(resource)
        try:
            yield part
        except BaseException:
            self.discard(resource, part)
            raise

    def discard(self, resource: StorageResource, part: str) -> None:
        """Deletes a part file of a resource."""
        with contextlib.suppress(NotFoundError):
            self._storage(resource).delete(resource.backend_share, part)
        self.parts.end(part)

    def find(self, resource: StorageResource) -> UnfinishedFile | None:
        """The unfinished upload to that path, or None."""
        with self._lock:
            return self._open.get(resource)

    def record_range(self, resource: StorageResource, span: tuple[int, int]) -> UnfinishedFile | None:
        """Records a received range; if it was the last, moves the file into place and returns it."""
        with self._lock:
            upload = self._open.get(resource)
            if upload is None:
                return None
            upload.last_write = self._clock()
            if not upload.add(*span):
                return None
            del self._open[resource]
            self._storage(resource).rename(resource.backend_share, upload.part, resource.path)
        self.parts.end(upload.part)
        return upload

    def add_block(self, resource: StorageResource, id: str, part: str) -> None:
        """Records a block of a blob; deletes the part file that it replaces."""
        with self._lock:
            uncommitted = self._blocks.setdefault(resource, UncommittedBlocks({}, 0.0))
            old = uncommitted.parts.get(id)
            uncommitted.parts[id], uncommitted.last_write = part, self._clock()
        if old:
            self.discard(resource, old)

    def blocks(self, resource: StorageResource) -> dict[str, str]:
        """The part files of a blob's blocks, by id."""
        with self._lock:
            uncommitted = self._blocks.get(resource)
            return dict(uncommitted.parts) if uncommitted else {}

    def drop_blocks(self, resource: StorageResource) -> None:
        """Deletes the uncommitted blocks of a blob."""
        with self._lock:
            uncommitted = self._blocks.pop(resource, None)
        for part in uncommitted.parts.values() if uncommitted else ():
            self.discard(resource, part)

    def drop(self, resource: StorageResource) -> bool:
        """Cancels an upload; False if there was none."""
        with self._lock:
            upload = self._open.pop(resource, None)
        if upload:
            self.discard(resource, upload.part)
        return upload is not None

    def drop_stale(self, service: str) -> None:
        """Cancels uploads not written to for a day."""
        with self._lock:
            files, blobs = self._stale(self._open, service), self._stale(self._blocks, service)
        for stale, drop in ((files, self.drop), (blobs, self.drop_blocks)):
            for resource in stale:
                with contextlib.suppress(BatchAIError):  # cancelled concurrently, or its share is gone
                    drop(resource)

    def _storage(self, resource: StorageResource) -> Storage:
        return storage_of(self._backend, resource.service)

    def _stale(
        self, unfinished: Mapping[StorageResource, UnfinishedFile | UncommittedBlocks], service: str
    ) -> list[StorageResource]:
        before = self._clock() - STALE_S
        return [
            resource
            for resource, upload in unfinished.items()
            if upload.last_write < before and resource.service == service
        ]
