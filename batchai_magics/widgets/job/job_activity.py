"""Describes what a job is doing before its first output: queued, preparing nodes or starting. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from batchai_magics.follow import QueueChanged
from batchai_magics.jobs.job_logs import saving_text
from batchai_magics.jobs.job_overview import clean_lines
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState, NodeState
from batchai_magics.widgets.job.log_tail import LogTail

MAX_NAMES = 3
READ_LINES = 20  # of each log, of which the last one is shown
_PREPARING = "job preparation started"
_STARTING = "starting "
_MOMENT = re.compile(r"^\S+Z ")


def describe_wait(job: JobResource, queue: QueueChanged | None, cluster: NodeStateCounts | None) -> str:
    """Describes what a queued job waits for: other jobs on the nodes, or missing nodes."""
    name = job.spec.cluster.id.rstrip("/").rpartition("/")[2]
    wanted = f"{job.spec.node_count} node{'s' * (job.spec.node_count != 1)} of {name}"
    if job.waiting:
        return f"Waiting for {wanted}: {job.waiting}."
    reasons = [*_of_queue(queue), *_of_cluster(cluster, job.spec.node_count)]
    return f"Waiting for {wanted}: {'; '.join(reasons)}." if reasons else f"Waiting for {wanted} …"


def _of_queue(queue: QueueChanged | None) -> Iterator[str]:
    if queue and queue.on_nodes:
        yield f"{_names(queue.on_nodes)} {_verb(queue.on_nodes, 'is', 'are')} using its nodes"
    if queue and queue.before:
        yield f"{_jobs_before(queue.before)} ahead in the queue"


def _of_cluster(cluster: NodeStateCounts | None, wanted: int) -> Iterator[str]:
    if cluster and cluster.of(NodeState.PREPARING):
        yield f"{cluster.of(NodeState.PREPARING)} of its nodes are being prepared"
    elif cluster and cluster.total < wanted:
        yield f"it has {cluster.total or 'none'}"


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


def describe_activity(
    job: JobResource,
    queue: QueueChanged | None,
    cluster: NodeStateCounts | None,
    tails: Mapping[str, LogTail],
) -> str:
    """Describes what the job is doing; empty if it has ended."""
    if job.state is ExecutionState.QUEUED:
        return describe_wait(job, queue, cluster)
    if job.state is ExecutionState.TERMINATING:
        return f"{saving_text(job).capitalize()} …"
    return "" if job.state.is_final else describe_start(tails)


def _last_line(tails: Mapping[str, LogTail], name: str) -> str:
    """The last line of the logs whose names start with `name`, as a terminal shows it."""
    return next(reversed(_lines(tails, name)), "")


def _lines(tails: Mapping[str, LogTail], name: str) -> list[str]:
    """The last lines of those logs that are not blank."""
    files = [tail for file, tail in sorted(tails.items()) if file.startswith(name)]
    lines = clean_lines(tuple(line for tail in files for line in tail.lines(READ_LINES)))
    return [line.strip() for line in lines if line.strip()]


def _names(names: Sequence[str]) -> str:
    """Joins names: `a`, `a and b`, `a, b and 3 more`."""
    shown = [*names[:MAX_NAMES], *([f"{len(names) - MAX_NAMES} more"] if len(names) > MAX_NAMES else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _jobs_before(names: Sequence[str]) -> str:
    """Names a few jobs, or counts many, with the counts of other experiments."""
    if len(names) <= MAX_NAMES:
        return f"{_names(names)} {_verb(names, 'is', 'are')}"
    others = Counter(experiment for experiment, found, _ in (name.rpartition("/") for name in names) if found)
    parts = [f"{count} of experiment {name}" for name, count in others.most_common(MAX_NAMES)]
    return f"{len(names):,} jobs{f' ({_names(parts)})' if parts else ''} are"


def _verb(names: Sequence[str], one: str, many: str) -> str:
    return one if len(names) == 1 else many
