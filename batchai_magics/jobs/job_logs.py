"""Reads the log files of a job as text.

Everything displayed comes from `read_redacted` or a `LogReader`, which redact secrets; `chunks` yields raw
bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from batchai_magics.backends.base import Backend, Bookmark, Chunk, FileRef, Span, fault_text
from batchai_magics.errors import FileChangedError, visible
from batchai_magics.jobs.merged_log import unmarked
from batchai_magics.launch.plan import GRACE_S
from batchai_magics.log_lines import lines_at_end
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState
from batchai_magics.models.wire_times import duration

if TYPE_CHECKING:
    from batchai_magics.metrics.reading.progress_reader import Progress

T = TypeVar("T")
CHUNK_BYTES = 1 << 20
MAX_READS = 3  # attempts to read a file that is replaced meanwhile
TAIL_BYTES = 1 << 16


@dataclass(frozen=True)
class LogSelection:
    """The part of a log that a command selects."""

    rank: int | None = None  # only bytes of this rank; bytes of unknown origin count as rank 0's
    since: float | None = None  # only bytes written from this time on, in seconds since 1970; None for all

    def of(self, chunk: Chunk) -> bytes:
        """The selected bytes of a chunk, including bytes of an unknown time."""
        start = self._start(chunk)
        spans = chunk.spans or (Span(chunk.offset, chunk.end, 0),)
        selected = [span for span in spans if self.rank in (None, span.rank)]
        if len(selected) == len(spans):
            return chunk.data[start - chunk.offset :]
        parts = ((max(span.start, start), span.end) for span in selected)
        return b"".join(chunk.data[a - chunk.offset : b - chunk.offset] for a, b in parts if a < b)

    def chunk_since(self, chunk: Chunk) -> Chunk:
        """The part of a chunk that was written from `since` on."""
        start = self._start(chunk)
        return replace(chunk, data=chunk.data[start - chunk.offset :], offset=start)

    def lines_of(self, chunk: Chunk) -> bytes:
        """The selected lines of a chunk of the merged log."""
        return LogSelection(self.rank).of(unmarked(chunk))

    def _start(self, chunk: Chunk) -> int:
        if self.since is None or not chunk.times:
            return chunk.offset
        times = (written.start for written in chunk.times if written.time >= self.since)
        return max(chunk.offset, next(times, chunk.end))


def tail_of(backend: Backend, file: FileRef, lines: int | None) -> str:
    """The text of a log, or its last `lines` lines, redacted; invalid UTF-8 becomes replacement characters.

    An incomplete finished log ends with a line that says so.

    Raises:
        FileChangedError: The file was replaced each time while it was read.
    """
    if lines is None:
        return retry_if_changed(lambda: _full_text(backend, file))
    data = retry_if_changed(lambda: _end_of(backend, file, lines))
    return b"".join(lines_at_end(data, lines)).decode("utf-8", errors="replace")


def _full_text(backend: Backend, file: FileRef) -> str:
    """The whole log; an incomplete one ends with a line that says so."""
    pieces: list[bytes] = []
    fault = consume(chunks(backend, file), lambda chunk: pieces.append(chunk.redacted.data))
    text = b"".join(pieces).decode("utf-8", errors="replace")
    return f"{text}\n[{fault_text(file.path, fault)}]\n" if fault else text


def consume(pieces: Generator[Chunk, None, str], take: Callable[[Chunk], object]) -> str:
    """Passes all chunks to `take`; returns the fault of the file, as `chunks` does."""
    while True:
        try:
            take(next(pieces))
        except StopIteration as end:
            return str(end.value)


def _end_of(backend: Backend, file: FileRef, lines: int) -> bytes:
    """The end of a file with at least that many lines, or all of it."""
    first = backend.read(file, 0, 1)
    data, start = b"", first.size
    mark = Bookmark(start, first.generation)
    while start > 0 and data.count(b"\n") <= lines:
        begin = max(0, start - TAIL_BYTES)
        chunk = backend.read(file, begin, start - begin)
        _check(chunk, mark, file)
        data, start = chunk.redacted.data + data, begin
    return data


def read_redacted(backend: Backend, file: FileRef, offset: int, limit: int) -> Chunk:
    """At most `limit` bytes of a file from the byte `offset` on, secrets as asterisks."""
    return backend.read(file, offset, limit).redacted


class LogReader:
    """Reads a log from its start; `chunk` is the piece that was read last, with secrets as asterisks."""

    def __init__(self, backend: Backend, file: FileRef) -> None:
        self._backend, self._file, self._digest = backend, file, hashlib.sha256()
        self.chunk = self._read(0)

    def advance(self) -> None:
        """Reads the next piece; it is empty at the end."""
        self.chunk = self._read(self.chunk.end)

    @property
    def fault(self) -> str:
        """What is wrong with the log, once it was read to its end, as a sentence; empty if nothing is."""
        seal = self.chunk.seal
        fault = seal.fault(self.chunk.end, self._digest.hexdigest()) if seal else ""
        return f"Warning: {fault_text(visible(self._file.path), fault)}." if fault else ""

    def _read(self, offset: int) -> Chunk:
        chunk = self._backend.read(self._file, offset, CHUNK_BYTES)
        self._digest.update(chunk.data)
        return chunk.redacted


def chunks(backend: Backend, file: FileRef) -> Generator[Chunk, None, str]:
    """Yields the raw chunks of a file, secrets included.

    Returns:
        The fault of the file: empty for a complete one; a finished log then matches its seal.

    Raises:
        FileChangedError: The file was truncated or replaced meanwhile.
    """
    mark, digest = Bookmark(), hashlib.sha256()
    while (chunk := backend.read(file, mark.offset, CHUNK_BYTES)).data:
        _check(chunk, mark, file)
        digest.update(chunk.data)
        yield chunk
        mark = mark.after(chunk)
    _check(chunk, mark, file)
    return chunk.seal.fault(mark.offset, digest.hexdigest()) if chunk.seal else ""


def _check(chunk: Chunk, mark: Bookmark, file: FileRef) -> None:
    if not mark.matches(chunk):
        text = f"{file.path} was cut or replaced while it was read"
        raise FileChangedError(text, code="FileChanged", hint="Read it again.")


def retry_if_changed(read: Callable[[], T]) -> T:
    """Calls `read`, at most three times if the file is replaced meanwhile.

    Raises:
        FileChangedError: It was replaced each time.
    """
    for _ in range(MAX_READS - 1):
        with contextlib.suppress(FileChangedError):
            return read()
    return read()


def has_progress(job: JobResource) -> bool:
    """Whether a job can have progress: it runs, or failed after its start."""
    return job.is_running or (job.state is ExecutionState.FAILED and job.execution is not None)


def saving_text(job: JobResource) -> str:
    """The text for a job whose processes were asked to end, with their grace period; else empty."""
    if job.state is not ExecutionState.TERMINATING:
        return ""
    grace = job.spec.batchai_grace
    seconds = duration(grace).total_seconds() if grace else GRACE_S
    return f"saving, up to {f'{seconds:g} s' if seconds < 120 else f'{seconds / 60:.3g} min'}"


def progress_text(job: JobResource, progress: Progress, now: float) -> str:
    """The progress in one line: `45 %, 45/100, 3 min left`, `failed at step 120/500, 24 %`."""
    return progress.sentence(now) if job.is_running else f"{job.word} at {progress.position_text}"
