"""Files on their way: each appears on its share when the last of its bytes is there, or never.

Azure shows a file from its creation on, full of zeros. So do we to who sends it, and nobody else: what a job
reads on a share is whole.
"""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from batchai_magics.backends.base import Storage
from batchai_magics.server.storage.sas import Resource

_UNFINISHED = ".part-"  # no listing shows files of such names


@dataclass
class Upload:
    """A file that was begun: where its bytes are kept, and which of them have come."""

    part: str
    size_bytes: int
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


class Uploads:
    """The files on their way to a storage. They are not there any more when the server has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[Resource, Upload] = {}
        self._blocks: dict[Resource, dict[str, str]] = {}

    def begin(self, storage: Storage, resource: Resource, share: str, size_bytes: int) -> None:
        """Begins a file of that size; one that is there stays until this one is whole."""
        path = PurePosixPath(resource.path)
        part = str(path.with_name(f"{_UNFINISHED}{uuid.uuid4().hex}"))
        self.drop(storage, resource, share)
        storage.resize(share, part, size_bytes)
        if size_bytes == 0:
            storage.rename(share, part, resource.path)
            return
        with self._lock:
            self._open[resource] = Upload(part, size_bytes)

    def of(self, resource: Resource) -> Upload | None:
        """The file that is on its way to that path, if there is one."""
        with self._lock:
            return self._open.get(resource)

    def wrote(self, storage: Storage, resource: Resource, share: str, span: tuple[int, int]) -> None:
        """Notes that bytes have come; puts the file in its place when they were the last."""
        with self._lock:
            upload = self._open.get(resource)
            if upload is None or not upload.add(*span):
                return
            del self._open[resource]
            storage.rename(share, upload.part, resource.path)

    def keep_block(self, resource: Resource, id: str, part: str) -> str | None:
        """Notes where a block of a blob is; gives the place of the one that had its id."""
        with self._lock:
            blocks = self._blocks.setdefault(resource, {})
            old = blocks.get(id)
            blocks[id] = part
        return old

    def blocks(self, resource: Resource) -> dict[str, str]:
        """Where the blocks of a blob are, by their ids."""
        with self._lock:
            return dict(self._blocks.get(resource, {}))

    def drop_blocks(self, resource: Resource) -> None:
        """Forgets the blocks of a blob that is made."""
        with self._lock:
            self._blocks.pop(resource, None)

    def drop(self, storage: Storage, resource: Resource, share: str) -> bool:
        """Gives a file up that was on its way; False when there was none."""
        with self._lock:
            upload = self._open.pop(resource, None)
        if upload:
            storage.delete(share, upload.part)
        return upload is not None
