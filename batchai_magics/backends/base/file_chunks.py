"""Chunks of a job's files as backends return them, and how a reader recognizes a file that it has read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from batchai_magics.models.job_execution import STDOUTERR

if TYPE_CHECKING:
    from batchai_magics.models.resource_ids import ResourceId

BEFORE_BYTES = 64  # by which a reader recognizes a file that it has read before


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
    """Size and digest of a finished log (empty if its end was not observed), and the bytes lost."""

    size_bytes: int = 0
    sha256: str = ""
    lost_bytes: int = 0

    def fault(self, size_bytes: int, sha256: str) -> str:
        """What is wrong with a log that was read completely; empty if it is what was written."""
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
    """A block of a file.

    `offset` is where `data` starts; `size` is the current size of the file; `is_complete` means that it will
    not grow any more. `spans` says which rank wrote which bytes of the block, `times` when they were written
    (to a tenth of a second, each up to the next one), where known. `hidden` are the spans in which the job
    printed its secrets: `data` is what it wrote, `redacted` what users may see.

    A file that does not exist (yet) is an empty chunk of size 0.

    `generation` identifies the file among others of its name; while it is the same, the file only grows.
    `before` are the last bytes before `offset`. A `Bookmark` compares both with what a reader has. `seal` is
    that of a complete log, if known.
    """

    data: bytes
    offset: int
    size: int
    is_complete: bool
    spans: tuple[Span, ...] = ()
    times: tuple[WriteTime, ...] = ()
    hidden: tuple[RedactedSpan, ...] = ()
    generation: str = ""  # empty if unknown
    before: bytes = b""
    seal: Seal | None = None

    @property
    def redacted(self) -> Chunk:
        """The chunk for display, with an asterisk for each byte of a secret."""
        if not self.hidden:
            return replace(self, before=b"") if self.before else self  # `before` may end in a secret
        data = bytearray(self.data)
        for span in self.hidden:
            first, last = max(0, span.start - self.offset), min(len(data), span.end - self.offset)
            data[first:last] = b"*" * (last - first)
        return replace(self, data=bytes(data), hidden=(), before=b"")

    @property
    def end(self) -> int:
        """The offset to read on from."""
        return self.offset + len(self.data)


@dataclass(frozen=True)
class Bookmark:
    """How far a reader has come in a file, and how it recognizes the file later."""

    offset: int = 0
    generation: str = ""
    before: bytes = b""

    def matches(self, chunk: Chunk) -> bool:
        """Whether a chunk is of the same file, rather than one truncated, replaced or rewritten since."""
        if chunk.size < self.offset:
            return False
        if chunk.generation and not chunk.generation.startswith(self.generation):
            return False
        length = min(len(self.before), len(chunk.before)) if chunk.offset == self.offset else 0
        return self.before[len(self.before) - length :] == chunk.before[len(chunk.before) - length :]

    def after(self, chunk: Chunk) -> Bookmark:
        """The bookmark after a chunk."""
        known = self.before if chunk.offset == self.offset and chunk.offset else b""
        before = (known + chunk.data[-BEFORE_BYTES:])[-BEFORE_BYTES:]
        return Bookmark(chunk.end, chunk.generation, before)
