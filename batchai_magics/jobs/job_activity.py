"""What a job is doing before its first output, in a sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping

from batchai_magics.jobs.job_logs import saving_text
from batchai_magics.jobs.log_tail import LogTail, clean_lines
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState

ACTIVITY_LINES = 20  # of each log, of which the last one is shown
_PREPARING = "job preparation started"
_STARTING = "starting "
_MOMENT = re.compile(r"^\S+Z ")


def describe_wait(job: JobResource, reason: str) -> str:
    """Describes what a queued job waits for."""
    name = job.spec.cluster.id.rstrip("/").rpartition("/")[2]
    wanted = f"{job.spec.node_count} node{'s' * (job.spec.node_count != 1)} of {name}"
    return f"Waiting for {wanted}: {reason}." if reason else f"Waiting for {wanted} …"


def describe_start(tails: Mapping[str, LogTail]) -> str:
    """Describes the start of a job before its first output, from the logs of execution and preparation."""
    sentences = [_MOMENT.sub("", line) for line in _lines(tails, "execution")]
    sentence = sentences[-1] if sentences else ""
    if sentence == _PREPARING:
        said = _last_line(tails, "stdout-job_prep") or _last_line(tails, "stderr-job_prep")
        return f"Preparing the nodes: {said}" if said else "Preparing the nodes …"
    if any(each.startswith(_STARTING) for each in sentences):
        return "Started; no output yet …"
    return f"Starting: {sentence}" if sentence else "Starting …"


def describe_activity(job: JobResource, wait_reason: str, tails: Mapping[str, LogTail]) -> str:
    """Describes what the job is doing; empty if it has ended."""
    if job.state is ExecutionState.QUEUED:
        return describe_wait(job, wait_reason)
    if job.state is ExecutionState.TERMINATING:
        return f"{saving_text(job).capitalize()} …"
    return "" if job.state.is_final else describe_start(tails)


def _last_line(tails: Mapping[str, LogTail], name: str) -> str:
    """The last line of the logs whose names start with `name`, as a terminal shows it."""
    return next(reversed(_lines(tails, name)), "")


def _lines(tails: Mapping[str, LogTail], name: str) -> list[str]:
    """The last lines of those logs that are not blank."""
    files = [tail for file, tail in sorted(tails.items()) if file.startswith(name)]
    lines = clean_lines(tuple(line for tail in files for line in tail.lines(ACTIVITY_LINES)))
    return [line.strip() for line in lines if line.strip()]
