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

from batchai_magics.backends.base import CONTAINERS, STORAGE, Backend, Storage
from batchai_magics.backends.base.default_transfers import STALE_S
from batchai_magics.backends.service.private_files import write
from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.server.storage.storage_metadata import EMPTY_RECORD, StorageRecord
from batchai_magics.server.storage.storage_resource import StorageResource, backend_share

_PREFIX = ".part-"
_NAME = re.compile(rf"{re.escape(_PREFIX)}[0-9a-f]{{32}}")


def is_part(path: str) -> bool:
    """Whether a file is one that is not whole yet: no listing shows it."""
    return _NAME.fullmatch(PurePosixPath(path).name) is not None


class PartFiles:
    """Notes below a folder, one for each file that was begun; those that a server has left are swept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, service: str, share: str, path: str) -> str:
        """The place of a new file until it is whole; nobody else has its name."""
        name = uuid.uuid4().hex
        part = str(PurePosixPath(path).with_name(f"{_PREFIX}{name}"))
        note = {"service": service, "share": share, "path": part, "pid": os.getpid()}
        write(self._folder / f"{name}.json", json.dumps(note))
        return part

    def end(self, part: str) -> None:
        """Forgets one that is in its place now, or deleted."""
        name = PurePosixPath(part).name.removeprefix(_PREFIX)
        (self._folder / f"{name}.json").unlink(missing_ok=True)

    def sweep(self, backend: Backend) -> None:
        """Deletes what a server that is gone has begun, and what has not grown for a day."""
        for note in self._folder.glob("*.json") if self._folder.exists() else ():
            with contextlib.suppress(BatchAIError, ValueError, KeyError):  # its share may be gone
                told = json.loads(note.read_text(encoding="utf-8"))
                storage: Storage = (CONTAINERS if told["service"] == "blob" else STORAGE).of(backend)
                share, part = told["share"], told["path"]
                if _is_running(int(told["pid"])) and not _is_stale(storage, share, part):
                    continue
                storage.delete(share, part)
            note.unlink(missing_ok=True)


def _is_running(pid: int) -> bool:
    """Whether the server that wrote a note may still go on with it, as another one on the same home."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _is_stale(storage: Storage, share: str, part: str) -> bool:
    """Whether nobody sends the rest any more: another process may have the number of the one that began."""
    try:
        modified = storage.show(share, part).modified
    except NotFoundError:  # it is about to be made
        return False
    return modified is not None and modified.timestamp() < time.time() - STALE_S


@dataclass
class UnfinishedFile:
    """A file that was begun: where its bytes are kept, and which of them have come."""

    part: str
    size_bytes: int
    last_write: float  # when bytes came last
    record: StorageRecord = EMPTY_RECORD
    ranges: list[tuple[int, int]] = field(default_factory=list)

    def add(self, start: int, end: int) -> bool:
        """Notes that these bytes are there; True when all are."""
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
    """The blocks of a blob that is to come: where each is kept, by its id."""

    parts: dict[str, str]
    last_write: float  # when one came last


class UnfinishedUploads:
    """The files on their way to a storage. They are not there any more when the server has ended."""

    def __init__(self, parts: PartFiles, *, clock: Callable[[], float] = time.time) -> None:
        self.parts, self._clock = parts, clock
        self._lock = threading.Lock()
        self._open: dict[StorageResource, UnfinishedFile] = {}
        self._blocks: dict[StorageResource, UncommittedBlocks] = {}

    def begin(
        self,
        storage: Storage,
        resource: StorageResource,
        share: str,
        size_bytes: int,
        record: StorageRecord = EMPTY_RECORD,
    ) -> bool:
        """Begins a file of that size; one that is there stays until this one is whole. True: it is."""
        self.drop(storage, resource, share)
        self.drop_stale(storage, resource.service)
        with self.part_file(storage, resource, share) as part:
            storage.resize(share, part, size_bytes)
            if size_bytes == 0:
                storage.rename(share, part, resource.path)
                self.parts.end(part)
                return True
        with self._lock:
            self._open[resource] = UnfinishedFile(part, size_bytes, self._clock(), record)
        return False

    @contextlib.contextmanager
    def part_file(self, storage: Storage, resource: StorageResource, share: str) -> Iterator[str]:
        """The place of a file that is not whole yet; it is deleted if what is done with it fails."""
        part = self.parts.begin(resource.service, share, resource.path)
        try:
            yield part
        except BaseException:
            self.discard(storage, share, part)
            raise

    def discard(self, storage: Storage, share: str, part: str) -> None:
        """Deletes a file that will never be whole."""
        with contextlib.suppress(NotFoundError):
            storage.delete(share, part)
        self.parts.end(part)

    def find(self, resource: StorageResource) -> UnfinishedFile | None:
        """The file that is on its way to that path, if there is one."""
        with self._lock:
            return self._open.get(resource)

    def record_range(
        self, storage: Storage, resource: StorageResource, share: str, span: tuple[int, int]
    ) -> UnfinishedFile | None:
        """Notes that bytes have come; puts the file in its place when they were the last, and gives it."""
        with self._lock:
            upload = self._open.get(resource)
            if upload is None:
                return None
            upload.last_write = self._clock()
            if not upload.add(*span):
                return None
            del self._open[resource]
            storage.rename(share, upload.part, resource.path)
        self.parts.end(upload.part)
        return upload

    def add_block(self, resource: StorageResource, id: str, part: str) -> str | None:
        """Notes where a block of a blob is; gives the place of the one that had its id."""
        with self._lock:
            kept = self._blocks.setdefault(resource, UncommittedBlocks({}, 0.0))
            old = kept.parts.get(id)
            kept.parts[id], kept.last_write = part, self._clock()
        return old

    def blocks(self, resource: StorageResource) -> dict[str, str]:
        """Where the blocks of a blob are, by their ids."""
        with self._lock:
            kept = self._blocks.get(resource)
            return dict(kept.parts) if kept else {}

    def drop_blocks(self, storage: Storage, resource: StorageResource, share: str) -> None:
        """Deletes the blocks of a blob that is made, or will never be."""
        with self._lock:
            kept = self._blocks.pop(resource, None)
        for part in kept.parts.values() if kept else ():
            self.discard(storage, share, part)

    def drop(self, storage: Storage, resource: StorageResource, share: str) -> bool:
        """Gives a file up that was on its way; False when there was none."""
        with self._lock:
            upload = self._open.pop(resource, None)
        if upload:
            self.discard(storage, share, upload.part)
        return upload is not None

    def drop_stale(self, storage: Storage, service: str) -> None:
        """Gives up what nobody has gone on with for a day."""
        with self._lock:
            files, blobs = self._stale(self._open, service), self._stale(self._blocks, service)
        for stale, drop in ((files, self.drop), (blobs, self.drop_blocks)):
            for resource in stale:
                with contextlib.suppress(BatchAIError):  # another one gave it up, or its share is gone
                    drop(storage, resource, backend_share(resource))

    def _stale(
        self, unfinished: Mapping[StorageResource, UnfinishedFile | UncommittedBlocks], service: str
    ) -> list[StorageResource]:
        before = self._clock() - STALE_S
        return [
            resource
            for resource, each in unfinished.items()
            if each.last_write < before and resource.service == service
        ]
