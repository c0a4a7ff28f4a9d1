"""Reads why a run failed from the ends of its logs: one value for everything that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from batchai_magics.backends.base.file_chunks import Chunk
from batchai_magics.log_lines import lines_at_end, visible_text
from batchai_magics.metrics.reading.line_splitter import strip_controls
from batchai_magics.models.job_execution import ERR, OUT, RankExit, node_name
from batchai_magics.records.job_error import (
    NO_PATHS,
    FailedProcess,
    JobError,
    LastOutput,
    SourcePaths,
    error_of_preparation,
    error_of_process,
)

READ_LINES = 200  # of a log's end, in which the traceback is searched
WINDOW_BYTES = 1 << 16  # per read
MAX_SCAN_BYTES = 1 << 22  # of the end of a log that other processes write too
PREPARATION_FAILED = "JobPreparationFailed"
PREPARATION_LOG = "job_prep"  # in the names of its logs

ReadLog = Callable[[str, int, int], Chunk]  # file, offset, limit; with secrets redacted


class FailedRun(NamedTuple):
    """What is known about a failed run without its logs.

    Attributes:
        job: The job's name.
        seconds: How long it ran; None if it did not start.
        exit_code: The exit code; None if no process failed by itself.
        ranks: The exits of its processes, the first failure first.
        errors: Code and message of each error, without warnings.
    """

    job: str
    seconds: float | None
    exit_code: int | None
    ranks: Sequence[RankExit]
    errors: Sequence[tuple[str, str]]

    @property
    def first(self) -> RankExit | None:
        """The process that failed first; None if none did, or the job was ended from outside."""
        failed = (rank for rank in self.ranks if rank.exit_code)
        return None if self.exit_code is None else next(failed, None)


def find_error(
    run: FailedRun,
    read: ReadLog,
    files: Callable[[], Iterable[str]],
    paths: SourcePaths = NO_PATHS,
) -> JobError:
    """Why a run failed.

    Args:
        run: What is known without its logs.
        read: Reads a log of the run, with secrets redacted.
        files: Lists the logs of the run.
        paths: How places in the user's code are shown.
    """
    return _error(run, read, files, paths)._replace(job=run.job, seconds=run.seconds).bounded()


def _error(run: FailedRun, read: ReadLog, files: Callable[[], Iterable[str]], paths: SourcePaths) -> JobError:
    first = run.first
    if first and first.exit_code:
        process = FailedProcess(first.rank, node_name(first.node), first.exit_code, first.meaning)
        return error_of_process(
            process, [last_output(read, name, rank=first.rank) for name in (ERR, OUT)], paths
        )
    codes = [code for code, _ in run.errors]
    if PREPARATION_FAILED in codes and run.exit_code is not None:
        node, output = next(_preparation_outputs(read, files()), ("", None))
        return error_of_preparation(node, run.exit_code, output, "preparation")
    reason = "; ".join(message for _, message in run.errors) or f"exit code {run.exit_code}"
    return JobError("", reason, exit_code=run.exit_code)


def _preparation_outputs(read: ReadLog, files: Iterable[str]) -> Iterator[tuple[str, LastOutput]]:
    """The last output of each preparation that wrote something, with its node, if the log names it."""
    logs = [name for name in files if PREPARATION_LOG in name]
    for name in sorted(logs, key=lambda name: (not name.startswith("stderr"), name)):
        output = last_output(read, name)
        if output.last_line:
            node = name.partition(f"{PREPARATION_LOG}-")[2].removesuffix(".txt")
            yield node_name(node), output


def last_output(read: ReadLog, file: str, *, rank: int | None = None) -> LastOutput:
    """The last lines of a log, or those of one rank, as a terminal shows them."""
    lines = last_lines(lambda offset, limit: read(file, offset, limit), READ_LINES, rank=rank)
    return LastOutput(file, tuple(strip_controls(visible_text(line)) for line in lines))


def last_lines(read: Callable[[int, int], Chunk], count: int, *, rank: int | None = None) -> tuple[str, ...]:
    """The last `count` lines within the last 64 KiB of a log, of a rank within the last 4 MiB.

    Args:
        read: Reads the log: offset, limit.
        count: The maximum number of lines.
        rank: Only the lines of this rank, if it is known which rank wrote what.
    """
    size = 0
    while (found := read(size, 1).size) > size:
        size = found
    start, data = size, b""
    while start > 0 and data.count(b"\n") <= count and size - start < MAX_SCAN_BYTES:
        begin = max(0, start - WINDOW_BYTES)
        chunk = read(begin, start - begin)
        data, start = _written_by(rank, chunk) + data, begin
        if rank is None or not chunk.spans:
            break
    lines = (line.rstrip(b"\r\n") for line in lines_at_end(data, count))
    return tuple(line.decode("utf-8", errors="replace") for line in lines)


def _written_by(rank: int | None, chunk: Chunk) -> bytes:
    if rank is None or not chunk.spans:
        return chunk.data
    spans = (span for span in chunk.spans if span.rank == rank)
    return b"".join(chunk.data[max(0, s.start - chunk.offset) : s.end - chunk.offset] for s in spans)
