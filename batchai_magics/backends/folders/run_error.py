"""Why a process of a run failed, read beside the run: for notifications. Standard library only."""

from __future__ import annotations

import contextlib
from pathlib import Path

from batchai_magics.backends.node import output_records
from batchai_magics.launch.plan import LogFile, Plan, ProcessExit
from batchai_magics.log_lines import lines_at_end, visible_text
from batchai_magics.metrics.reading.line_splitter import strip_controls
from batchai_magics.records.job_error import (
    FailedProcess,
    JobError,
    LastOutput,
    SourcePaths,
    error_of_process,
)
from batchai_magics.untrusted_files import open_file

TAIL_BYTES = 1 << 18  # of a log, in which the last lines of a process are searched
MAX_LINES = 200


def process_error(plan: Plan, process: ProcessExit, paths: SourcePaths) -> JobError:
    """Why a process failed, of its last output; secrets are asterisks."""
    failed = FailedProcess(process.rank, process.node, process.exit_code or 0)
    logs = (plan.output.stderr, plan.output.stdout)
    return error_of_process(failed, [last_output(log, process.rank) for log in logs], paths).bounded()


def last_output(log: LogFile, rank: int | None = None) -> LastOutput:
    """The last lines of a log, or those of one rank; secrets are asterisks."""
    name = Path(log.path).name
    with contextlib.suppress(OSError):  # it is missing, or no regular file
        lines = lines_at_end(_tail_of(log, rank), MAX_LINES)
        texts = (line.decode("utf-8", errors="replace") for line in lines)
        return LastOutput(name, tuple(strip_controls(visible_text(text)) for text in texts))
    return LastOutput(name)


def _tail_of(log: LogFile, rank: int | None) -> bytes:
    """What the rank, or any, wrote near the end of a log, without secrets."""
    with open_file(log.path) as file:
        end = file.seek(0, 2)
        start = file.seek(max(0, end - TAIL_BYTES))
        data = bytearray(file.read(end - start))
    end = start + len(data)
    for first, last in output_records.secrets(Path(log.hidden), start, end) if log.hidden else ():
        data[first - start : last - start] = b"*" * (last - first)
    if rank is None or not log.spans:
        return bytes(data)
    spans = output_records.writers(Path(log.spans), start, end)
    return b"".join(data[span.start - start : span.end - start] for span in spans if span.rank == rank)
