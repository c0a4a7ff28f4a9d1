"""Facts about a job in its live view: its details, and why it failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from batchai_magics.backends.base import Chunk
from batchai_magics.follow.job_errors import failed_run, paths_of
from batchai_magics.jobs.job_files import directories_of
from batchai_magics.jobs.job_logs import saving_text
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.jobs.log_tail import clean_lines
from batchai_magics.jobs.merged_log import MERGED
from batchai_magics.metrics.progress.progress_reader import Progress
from batchai_magics.metrics.runs.metric_traits import (
    MetricPreferences,
    MetricTraits,
    charts_of,
    is_default,
)
from batchai_magics.models.job_execution import ERR, OUT, OutputFile, RankExit
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import NodeState
from batchai_magics.models.wire_times import duration
from batchai_magics.records.job_error import JobError, SourcePaths
from batchai_magics.widgets.core.feed import PageData, milliseconds
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
    return _with_paths(_ranks_report(failed, read), paths_of(job)) if failed_run(job).first else {}


def _with_paths(report: PageData, paths: SourcePaths) -> PageData:
    """The report with paths in the job's copy as the user's own; the page links those of the cell."""
    shown = dict(report)
    for name in {"lines", "before"} & shown.keys():
        shown[name] = list(map(paths.shown, shown[name]))
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


MAX_OPEN_LINE_BYTES = 400  # of an unterminated line


def facts_of(feed: JobModel) -> PageData:
    """What the header shows (`JobFacts` in frontend/core/messages.d.ts); empty while nothing is known."""
    job = feed.job
    if job is None:
        return {}
    return {
        **execution_of(job),
        "name": job.id.name,
        "experiment": job.id.experiment,
        "cluster": job.spec.cluster.id.rstrip("/").rsplit("/", 1)[-1],
        "toolkit": job.spec.toolkit.value,
        "state": job.word,
        "nodes": job.spec.node_count,
        "processes": max(len(job.ranks), feed.processes, 1),
        "errors": _errors(job),
        "warnings": [*_warnings(job), *feed.hang_signs],
        "failure": feed.error and _failure(feed.error),
        "problem": feed.problem,
        "attempt": len(job.attempts),
        "before": _before(job),
        "log_faults": feed.faults,
        "max_s": int(duration(job.spec.constraints.max_wall_clock_time).total_seconds()),
        "script": paths_of(job).script,
        "copies": paths_of(job).copies,
        "way_back": f"%batchai job show -n {job.id.name}",
        "warm_up": feed.warm_up,
        "charts": _charts(feed),
        "axis": feed.points.axis,
        "attempt_steps": [list(each) for each in feed.points.attempts.items()],
        "unread": feed.unread and feed.unread._asdict(),
        "metric_notices": list(feed.metric_notices),
        "standstill": feed.standstill,
        "saving": saving_text(job),
        "has_ranks": feed.has_ranks,
        "directories": directories_of(job.spec),
    }


def _charts(feed: JobModel) -> list[PageData]:
    """The charts, the headline's first (`Chart` in frontend/core/messages.d.ts)."""
    units = dict(feed.points.metrics)
    charts = charts_of(units, feed.preferences)
    return [{**chart_fields(lines, feed.preferences), "unit": units[lines[0]]} for lines in charts]


def chart_fields(lines: Sequence[MetricTraits], preferences: MetricPreferences) -> PageData:
    """A chart of one quantity (`Chart` in frontend/core/messages.d.ts), without its unit."""
    first = lines[0]
    return {
        "title": first.label if len(lines) == 1 else first.quantity,
        "quantity": first.quantity,
        "direction": preferences.direction(first).value,
        "is_rate": first.is_rate,
        "is_summed": first.is_summed,
        "is_default": is_default(lines),
        "lines": [{"name": line.name, "phase": line.phase} for line in lines],
    }


def status_of(feed: JobModel) -> PageData:
    """The job's progress and activity (`JobStatus` in frontend/core/messages.d.ts)."""
    progress = feed.progress
    return {"activity": feed.activity, "progress": progress and progress_fields(progress)}


def open_lines_of(feed: JobModel) -> list[PageData]:
    """The unterminated last lines of stdout and stderr (`OpenLine` in frontend/core/messages.d.ts)."""
    if MERGED not in feed.tails:
        return []
    return [
        {"text": line[:MAX_OPEN_LINE_BYTES].decode("utf-8", "replace"), "is_error": file == ERR}
        for file, line in feed.merged.open_lines
    ]


def progress_fields(progress: Progress) -> PageData:
    """A job's progress (`Progress` in frontend/core/messages.d.ts)."""
    return {
        "fraction": round(progress.fraction, 4),
        "words": progress.words,
        "ends": progress.ends_at and int(progress.ends_at * 1000),
        "is_of_epoch": progress.is_of_epoch,
    }


def _before(job: JobResource) -> list[str]:
    """The outcomes of earlier attempts, and what the next one waits for."""
    waits = job.attempts and job.waiting and f"it waits again: {job.waiting}"
    return [*(each.sentence for each in job.attempts if each.reason), *([waits] if waits else [])]


def _errors(job: JobResource) -> list[dict[str, str]]:
    """Why the job failed; empty if it was cancelled."""
    errors = job.execution.errors if job.execution and not job.is_cancelled else ()
    return [{"code": error.code, "message": error.message} for error in errors if not error.is_warning]


def _warnings(job: JobResource) -> list[str]:
    """Problems that did not fail the job."""
    return [error.message for error in (job.execution.errors if job.execution else ()) if error.is_warning]


def _failure(error: JobError) -> PageData:
    return {"cause": f"{error.cause[:1].upper()}{error.cause[1:]}", "hints": list(error.hints)}


def execution_of(job: JobResource) -> PageData:
    """When a job was made, began and ended, and with which exit code, as the page counts it."""
    execution = job.execution
    ended = execution.ended if execution else None
    return {
        "created": milliseconds(job.provisioning.created),
        "started": milliseconds(execution.started) if execution else None,
        "ended": milliseconds(ended) if ended else None,
        "exit_code": execution.exit_code if execution else None,
    }


def counts_of(feed: JobModel) -> dict[str, int]:
    """The node counts by state (`Counts` in frontend/core/messages.d.ts)."""
    if feed.counts is None:
        return {}
    return {state.value: feed.counts.of(state) for state in NodeState}
