"""Reads the last lines of a log, or of one rank in it."""

from __future__ import annotations

from collections.abc import Callable

from batchai_magics.backends.base import Backend, Chunk, FileRef
from batchai_magics.log_lines import lines_at_end, visible_text
from batchai_magics.metrics.reading.line_splitter import strip_controls
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.records.job_error import LastOutput

READ_LINES = 200  # of a log's end, in which the traceback is searched
WINDOW_BYTES = 1 << 16  # per read
MAX_SCAN_BYTES = 1 << 22  # of the end of a log that other processes write too

ReadLog = Callable[[str, int, int], Chunk]  # file, offset, limit; with secrets redacted


def redacted_logs(backend: Backend, job: ResourceId) -> ReadLog:
    """Reads the logs of a job, secrets as asterisks."""
    return lambda file, offset, limit: backend.read(FileRef(job, file), offset, limit).redacted


def last_output(read: ReadLog, file: str, *, rank: int | None = None) -> LastOutput:
    """The last lines of a log, or of one rank's output in it, as a terminal shows them."""
    lines = last_lines(read, file, READ_LINES, rank=rank)
    return LastOutput(file, tuple(strip_controls(visible_text(line)) for line in lines))


def last_lines(read: ReadLog, file: str, count: int, *, rank: int | None = None) -> tuple[str, ...]:
    """The last `count` lines within the last 64 KiB of a log, of a rank within the last 4 MiB.

    Where it is not known which rank wrote what, all lines count.
    """
    size = 0
    while (found := read(file, size, 1).size) > size:
        size = found
    start, data = size, b""
    while start > 0 and data.count(b"\n") <= count and size - start < MAX_SCAN_BYTES:
        begin = max(0, start - WINDOW_BYTES)
        chunk = read(file, begin, start - begin)
        if rank is None or not chunk.spans:
            data = chunk.data + data
            break
        spans = (span for span in chunk.spans if span.rank == rank)
        written = (chunk.data[max(0, s.start - chunk.offset) : s.end - chunk.offset] for s in spans)
        data, start = b"".join(written) + data, begin
    lines = (line.rstrip(b"\r\n") for line in lines_at_end(data, count))
    return tuple(line.decode("utf-8", errors="replace") for line in lines)
