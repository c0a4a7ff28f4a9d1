"""Files on their way: each appears on its share when the last of its bytes is there, or never.

Azure shows a file from its creation on, full of zeros. So do we to who sends it, and nobody else: what a job
reads on a share is whole.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from batchai_magics.backends.base import Storage
from batchai_magics.backends.base.transfers import STALE_S
from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.server.storage.metadata import NOTHING, Record
from batchai_magics.server.storage.part_files import PartFiles
from batchai_magics.server.storage.request import Resource, share_of


@dataclass
class Upload:
    """A file that was begun: where its bytes are kept, and which of them have come."""

    part: str
    size_bytes: int
    moved: float  # when bytes came last
    record: Record = NOTHING
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
class Blocks:
    """The blocks of a blob that is to come: where each is kept, by its id."""

    parts: dict[str, str]
    moved: float  # when one came last


class Uploads:
    """The files on their way to a storage. They are not there any more when the server has ended."""

    def __init__(self, parts: PartFiles, *, clock: Callable[[], float] = time.time) -> None:
        self.parts, self._clock = parts, clock
        self._lock = threading.Lock()
        self._open: dict[Resource, Upload] = {}
        self._blocks: dict[Resource, Blocks] = {}

    def begin(
        self,
        storage: Storage,
        resource: Resource,
        share: str,
        size_bytes: int,
        record: Record = NOTHING,
    ) -> bool:
        """Begins a file of that size; one that is there stays until this one is whole. True: it is."""
        self.drop(storage, resource, share)
        self.drop_stale(storage, resource.service)
        with self.made(storage, resource, share) as part:
            storage.resize(share, part, size_bytes)
            if size_bytes == 0:
                storage.rename(share, part, resource.path)
                self.parts.end(part)
                return True
        with self._lock:
            self._open[resource] = Upload(part, size_bytes, self._clock(), record)
        return False

    @contextlib.contextmanager
    def made(self, storage: Storage, resource: Resource, share: str) -> Iterator[str]:
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

    def of(self, resource: Resource) -> Upload | None:
        """The file that is on its way to that path, if there is one."""
        with self._lock:
            return self._open.get(resource)

    def wrote(self, storage: Storage, resource: Resource, share: str, span: tuple[int, int]) -> Upload | None:
        """Notes that bytes have come; puts the file in its place when they were the last, and gives it."""
        with self._lock:
            upload = self._open.get(resource)
            if upload is None:
                return None
            upload.moved = self._clock()
            if not upload.add(*span):
                return None
            del self._open[resource]
            storage.rename(share, upload.part, resource.path)
        self.parts.end(upload.part)
        return upload

    def keep_block(self, resource: Resource, id: str, part: str) -> str | None:
        """Notes where a block of a blob is; gives the place of the one that had its id."""
        with self._lock:
            kept = self._blocks.setdefault(resource, Blocks({}, 0.0))
            old = kept.parts.get(id)
            kept.parts[id], kept.moved = part, self._clock()
        return old

    def blocks(self, resource: Resource) -> dict[str, str]:
        """Where the blocks of a blob are, by their ids."""
        with self._lock:
            kept = self._blocks.get(resource)
            return dict(kept.parts) if kept else {}

    def drop_blocks(self, storage: Storage, resource: Resource, share: str) -> None:
        """Deletes the blocks of a blob that is made, or will never be."""
        with self._lock:
            kept = self._blocks.pop(resource, None)
        for part in kept.parts.values() if kept else ():
            self.discard(storage, share, part)

    def drop(self, storage: Storage, resource: Resource, share: str) -> bool:
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
                    drop(storage, resource, share_of(resource))

    def _stale(self, unfinished: Mapping[Resource, Upload | Blocks], service: str) -> list[Resource]:
        before = self._clock() - STALE_S
        return [
            resource
            for resource, each in unfinished.items()
            if each.moved < before and resource.service == service
        ]
