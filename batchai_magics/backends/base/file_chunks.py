"""Chunks of a job's files as backends return them, and the bookmark by which a reader recognizes a file."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from batchai_magics.log_lines import RedactedSpan as RedactedSpan
from batchai_magics.log_lines import Span as Span
from batchai_magics.log_lines import WriteTime as WriteTime
from batchai_magics.models.job_execution import STDOUTERR

if TYPE_CHECKING:
    from batchai_magics.models.resource_ids import ResourceId

UNFINISHED = "its last lines may be missing: the job was killed"
BEFORE_BYTES = 64  # by which a reader recognizes a file that it has read before


@dataclass(frozen=True)
class FileRef:
    """A file in one of a job's output directories; `path` is relative to the directory, with `/`."""

    job: ResourceId
    path: str
    directory_id: str = STDOUTERR


@dataclass(frozen=True)
class Seal:
    """The size and digest of a log when its job ended."""

    size_bytes: int = 0  # its size
    sha256: str = ""  # its digest (hex); empty if the process that wrote the log was killed before the end
    lost_bytes: int = 0  # the bytes that the disk did not accept

    def fault(self, size_bytes: int, sha256: str) -> str:
        """What is wrong with a log that was read to its end; empty if it is as the job wrote it.

        Args:
            size_bytes: The bytes that were read.
            sha256: Their digest (hex).
        """
        if not self.sha256:
            return UNFINISHED
        if self.lost_bytes:
            return f"its last {self.lost_bytes:,} bytes are missing: the disk did not take them"
        if size_bytes < self.size_bytes:
            return f"{self.size_bytes - size_bytes:,} of its {self.size_bytes:,} bytes are missing"
        if (size_bytes, sha256) != (self.size_bytes, self.sha256):
            return "it was changed after the job had ended"
        return ""


def fault_text(file: str, fault: str) -> str:
    """What is wrong with a finished log, in a sentence without its period."""
    if fault == UNFINISHED:
        return "The last log lines may be missing: the job was killed"
    return f"{file} is not complete: {fault}"


@dataclass(frozen=True)
class Chunk:
    """A piece of a file; an empty chunk of size 0 for a file that does not exist (yet)."""

    data: bytes  # the bytes as the job wrote them, secrets included; `redacted` is for display
    offset: int  # the absolute offset of `data` in the file
    size: int  # the current size of the file in bytes
    is_complete: bool  # whether the file will not grow any more
    spans: tuple[Span, ...] = ()  # which rank wrote which bytes, where known
    # When the bytes were written, to a tenth of a second, where known; each up to the next one
    times: tuple[WriteTime, ...] = ()
    hidden: tuple[RedactedSpan, ...] = ()  # where the job printed its secrets
    # Identifies the file among those that had its name; while it is the same, the file only grows. Empty
    # where unknown
    generation: str = ""
    before: bytes = b""  # the last bytes before `offset`, at most 64, by which `Bookmark` recognizes a file
    seal: Seal | None = None  # what was written to a complete log, where known
    # When the file was written last, in nanoseconds since 1970; 0 where unknown
    modified_ns: int = field(default=0, compare=False)

    @property
    def redacted(self) -> Chunk:
        """The chunk for display: an asterisk for each byte of a secret."""
        if not self.hidden:
            return replace(self, before=b"") if self.before else self  # `before` may end in a secret
        data = bytearray(self.data)
        for span in self.hidden:
            first, last = max(0, span.start - self.offset), min(len(data), span.end - self.offset)
            data[first:last] = b"*" * (last - first)
        return replace(self, data=bytes(data), hidden=(), before=b"")

    @property
    def end(self) -> int:
        """The offset of the next chunk."""
        return self.offset + len(self.data)

    def part(self, start: int, end: int) -> Chunk:
        """The bytes `start` to `end` of the data, with what is known of them."""
        first, last = self.offset + start, self.offset + end
        spans = tuple(
            span._replace(start=max(span.start, first), end=min(span.end, last))
            for span in self.spans
            if span.start < last and span.end > first
        )
        return replace(self, data=self.data[start:end], offset=first, spans=spans)


@dataclass(frozen=True)
class Bookmark:
    """How far a reader has read a file, and by what it recognizes the file the next time."""

    offset: int = 0  # the bytes that were read
    generation: str = ""  # the generation of the last chunk
    before: bytes = b""  # the last bytes that were read, at most 64

    def matches(self, chunk: Chunk) -> bool:
        """Whether a chunk is from the same file, which was not truncated, replaced or rewritten since."""
        if chunk.size < self.offset:
            return False
        if chunk.generation and not chunk.generation.startswith(self.generation):
            return False
        length = min(len(self.before), len(chunk.before)) if chunk.offset == self.offset else 0
        return self.before[len(self.before) - length :] == chunk.before[len(chunk.before) - length :]

    def after(self, chunk: Chunk) -> Bookmark:
        """The bookmark at the end of a chunk."""
        known = self.before if chunk.offset == self.offset and chunk.offset else b""
        before = (known + chunk.data[-BEFORE_BYTES:])[-BEFORE_BYTES:]
        return Bookmark(chunk.end, chunk.generation, before)
