"""Pieces of a job's files as backends return them, and how a reader recognizes a file that it has read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from batchai_magics.models.job_execution import STDOUTERR

if TYPE_CHECKING:
    from batchai_magics.models.resource_ids import ResourceId

BEFORE_BYTES = 64  # by which a reader knows that a file is still the one that it has read


@dataclass(frozen=True)
class FileRef:
    """A file in one of a job's output directories (`stdouterr` holds its logs)."""

    job: ResourceId
    path: str
    directory_id: str = STDOUTERR


@dataclass(frozen=True)
class Span:
    """Bytes `start` to `end` of a file (absolute offsets) were written by process `rank`."""

    start: int
    end: int
    rank: int


@dataclass(frozen=True)
class WriteTime:
    """The bytes from `start` (an absolute offset) on were written at `time`, in seconds since 1970."""

    start: int
    time: float


@dataclass(frozen=True)
class RedactedSpan:
    """Bytes `start` to `end` of a file (absolute offsets) are the value of a secret of the job."""

    start: int
    end: int


@dataclass(frozen=True)
class Seal:
    """What a log was when its job had ended: so many bytes, and their digest (empty: nobody saw its end)."""

    size_bytes: int = 0
    sha256: str = ""
    lost_bytes: int = 0

    def fault(self, size_bytes: int, sha256: str) -> str:
        """What is wrong with a log that was read to its end; empty when it is what was written."""
        if not self.sha256:
            return "its last lines may be missing: what wrote it was killed"
        if self.lost_bytes:
            return f"its last {self.lost_bytes:,} bytes are missing: the disk did not take them"
        if size_bytes < self.size_bytes:
            return f"{self.size_bytes - size_bytes:,} of its {self.size_bytes:,} bytes are missing"
        if (size_bytes, sha256) != (self.size_bytes, self.sha256):
            return "it was changed after the job had ended"
        return ""


@dataclass(frozen=True)
class Chunk:
    """A piece of a file.

    `offset` is where `data` starts; `size` is how long the file is now; `is_complete` says that it will
    not grow any more. `spans` says which rank wrote which bytes of the piece, `times` when they were written
    (to a tenth of a second, each up to the next one), where that is known. `hidden` are the places where
    the job printed its secrets: `data` is what it wrote, `shown` is what people may see of it.
    A file that is not there (yet) is an empty chunk of size 0.

    `generation` tells the file from another one under its name; while it is the same, it only gets longer.
    `before` are the last bytes before `offset`. A `Bookmark` holds both against what a reader has.
    `seal` is what the whole of a complete log was written as, where that is known.
    """

    data: bytes
    offset: int
    size: int
    is_complete: bool
    spans: tuple[Span, ...] = ()
    times: tuple[WriteTime, ...] = ()
    hidden: tuple[RedactedSpan, ...] = ()
    generation: str = ""  # empty where it is not known
    before: bytes = b""
    seal: Seal | None = None

    @property
    def shown(self) -> Chunk:
        """The same for people: an asterisk stands for each byte of a secret."""
        if not self.hidden:
            return replace(self, before=b"") if self.before else self  # it may end in a secret
        data = bytearray(self.data)
        for place in self.hidden:
            first, last = max(0, place.start - self.offset), min(len(data), place.end - self.offset)
            data[first:last] = b"*" * (last - first)
        return replace(self, data=bytes(data), hidden=(), before=b"")

    @property
    def end(self) -> int:
        """Where to read on."""
        return self.offset + len(self.data)


@dataclass(frozen=True)
class Bookmark:
    """How far a reader has come in a file, and what it knows the file by when it comes back."""

    offset: int = 0
    generation: str = ""
    before: bytes = b""

    def is_in(self, chunk: Chunk) -> bool:
        """Whether a chunk is of the same file, not of one that was cut, replaced or written anew since."""
        if chunk.size < self.offset:
            return False
        if chunk.generation and not chunk.generation.startswith(self.generation):
            return False
        length = min(len(self.before), len(chunk.before)) if chunk.offset == self.offset else 0
        return self.before[len(self.before) - length :] == chunk.before[len(chunk.before) - length :]

    def after(self, chunk: Chunk) -> Bookmark:
        """The bookmark behind a chunk."""
        begun = self.before if chunk.offset == self.offset and chunk.offset else b""
        before = (begun + chunk.data[-BEFORE_BYTES:])[-BEFORE_BYTES:]
        return Bookmark(chunk.end, chunk.generation, before)
