"""What a failed job printed last: the rank that failed first, the others, or its preparation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from batchai_magics.backends.base import Chunk
from batchai_magics.follow.job_errors import first_failure, paths_of
from batchai_magics.jobs.log_tail import clean_lines
from batchai_magics.models.job_execution import ERR, OUT, OutputFile, RankExit
from batchai_magics.models.resources import JobResource
from batchai_magics.records.job_error import SourcePaths
from batchai_magics.widgets.core.polled_model import PageData
from batchai_magics.widgets.job.rank_lines import RankPage, rank_page, tail_page

LINES = 30  # of the rank that failed first
LINES_OF_OTHERS = 6  # of each other failed rank
STDOUT_LINES = 10  # of the rank that failed first, if its last output is on stderr
MAX_OTHERS = 8
LOGS = (ERR, OUT)

Read = Callable[[str, int, int], Chunk]  # file, offset, limit


def failure_report(job: JobResource, read: Read, files: Iterable[OutputFile]) -> PageData:
    """Returns the failure report (`Failure` in frontend/core/messages.d.ts); empty without one."""
    if not job.has_failed:
        return {}
    failed = [rank for rank in job.ranks if rank.exit_code]
    if not failed:
        return _preparation_report(read, files)
    return _with_paths(_ranks_report(failed, read), paths_of(job)) if first_failure(job) else {}


def _with_paths(report: PageData, paths: SourcePaths) -> PageData:
    """The report with paths in the job's copy as the user's own; the page links those of the cell."""
    shown = dict(report)
    for name in {"lines", "before"} & shown.keys():
        shown[name] = list(map(paths.with_user_paths, shown[name]))
    if "others" in shown:
        shown["others"] = [_with_paths(other, paths) for other in shown["others"]]
    return shown


def _ranks_report(failed: Sequence[RankExit], read: Read) -> PageData:
    """The last output of the rank that failed first, and of the others."""
    first, *others = (
        _rank_report(rank, read, is_first=rank is failed[0]) for rank in failed[: MAX_OTHERS + 1]
    )
    before = _last_stdout(failed[0].rank, read) if first["file"] == LOGS[0] else []
    return {**first, "before": before, "others": others, "more": max(0, len(failed) - 1 - MAX_OTHERS)}


def _rank_report(rank: RankExit, read: Read, *, is_first: bool) -> PageData:
    file, page = _last_output(rank.rank, read, is_alone=is_first)
    count = LINES if is_first else LINES_OF_OTHERS
    lines = _lines(page)[-count:]
    return {
        "rank": rank.rank,
        "node": rank.node,
        "exit_code": rank.exit_code,
        "meaning": rank.meaning,
        "file": file,
        "offset": page.starts[-len(lines)] if lines else 0,
        "lines": clean_lines(tuple(text for text in lines)),
    }


def _last_stdout(rank: int, read: Read) -> list[str]:
    """The last lines of a rank on stdout."""
    page = rank_page(lambda at, limit: read(LOGS[1], at, limit), rank, -1, is_backward=True)
    return clean_lines(tuple(_lines(page)[-STDOUT_LINES:]))


def _last_output(rank: int, read: Read, *, is_alone: bool) -> tuple[str, RankPage]:
    """The last output of a rank, on stderr, else on stdout; of all ranks if lines cannot be attributed."""
    for file in LOGS:
        page = rank_page(lambda at, limit, file=file: read(file, at, limit), rank, -1, is_backward=True)  # type: ignore[misc]  # bound on purpose
        if page.starts:
            return file, page
    return LOGS[0], tail_page(lambda at, limit: read(LOGS[0], at, limit)) if is_alone else RankPage(0, 0, 0)


def _preparation_report(read: Read, files: Iterable[OutputFile]) -> PageData:
    """The last output of a failed job preparation."""
    logs = [file.path for file in files if "job_prep" in file.path and file.size_bytes]
    for log in sorted(logs, key=lambda name: not name.startswith("stderr")):
        page = tail_page(lambda at, limit, log=log: read(log, at, limit))  # type: ignore[misc]  # bound on purpose
        lines = _lines(page)[-LINES:]
        if lines:
            return {
                "file": log,
                "offset": page.starts[-len(lines)],
                "lines": clean_lines(tuple(lines)),
                "others": [],
            }
    return {}


def _lines(page: RankPage) -> list[str]:
    return page.data.decode("utf-8", "replace").split("\n")[: len(page.starts)]
