"""The first failure of a job, with the last words of the process that failed, and those of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from batchai_magics.backends.base import Chunk
from batchai_magics.cards.job_card import clean_lines, first_failure
from batchai_magics.models.execution import ERR, OUT, OutputFile, RankExit
from batchai_magics.models.resources import JobResource
from batchai_magics.widgets.job.rank_lines import RankPage, lines_of, tail_page

LINES = 30  # of the process that failed first
OTHER_LINES = 6  # of each of the others
BEFORE_LINES = 10  # on stdout, of the process that failed first
OTHERS = 8
LOGS = (ERR, OUT)

Read = Callable[[str, int, int], Chunk]  # file, offset, limit


def failure_of(job: JobResource, read: Read, files: Iterable[OutputFile]) -> dict[str, Any]:
    """What the page shows of a failure (`Failure` in frontend/job/messages.d.ts); else empty."""
    if not job.has_failed:
        return {}
    failed = [rank for rank in job.ranks if rank.exit_code]
    if not failed:
        return _preparation(read, files)
    return _ranks(failed, read) if first_failure(job) else {}


def _ranks(failed: Sequence[RankExit], read: Read) -> dict[str, Any]:
    """The last words of the process that failed first, and of the others."""
    first, *others = (_words(rank, read, is_first=rank is failed[0]) for rank in failed[: OTHERS + 1])
    before = _before(failed[0].rank, read) if first["file"] == LOGS[0] else []
    return {**first, "before": before, "others": others, "more": max(0, len(failed) - 1 - OTHERS)}


def _words(rank: RankExit, read: Read, *, is_first: bool) -> dict[str, Any]:
    file, page = _last_words(rank.rank, read, is_alone=is_first)
    count = LINES if is_first else OTHER_LINES
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


def _before(rank: int, read: Read) -> list[str]:
    """What a rank wrote last on stdout."""
    page = lines_of(lambda at, limit: read(LOGS[1], at, limit), rank, -1, is_backward=True)
    return clean_lines(tuple(_lines(page)[-BEFORE_LINES:]))


def _last_words(rank: int, read: Read, *, is_alone: bool) -> tuple[str, RankPage]:
    """What a rank wrote last: on stderr, else on stdout; of all ranks where nobody knows who wrote what."""
    for file in LOGS:
        page = lines_of(lambda at, limit, file=file: read(file, at, limit), rank, -1, is_backward=True)  # type: ignore[misc]  # bound on purpose
        if page.starts:
            return file, page
    return LOGS[0], tail_page(lambda at, limit: read(LOGS[0], at, limit)) if is_alone else RankPage(0, 0, 0)


def _preparation(read: Read, files: Iterable[OutputFile]) -> dict[str, Any]:
    """The last words of a job preparation that failed."""
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
