"""The events of a job, and pollers of those that are not in its log: queue position, resource usage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from batchai_magics.backends.base import Backend, Chunk, FileRef
from batchai_magics.errors import NotFoundError
from batchai_magics.metrics.measurement import Record
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState
from batchai_magics.models.telemetry_records import TelemetryRecord
from batchai_magics.records.job_error import JobError
from batchai_magics.records.rank_stacks import duration_text

if TYPE_CHECKING:
    from batchai_magics.metrics.measurement_table import MeasurementTable


QUEUE_POLL_S = 2.0  # poll interval
MAX_CPU_SHARE = 0.05  # largest share of a core for polling
MAX_POLL_S = 10.0  # upper limit of the resulting poll interval


@dataclass(frozen=True)
class QueueChanged:
    """The queue position changed: the jobs `on_nodes` of the cluster, and those `before` this one.

    Jobs of other experiments are prefixed with the experiment: `theirs/long`.
    """

    job: ResourceId
    on_nodes: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


class QueuePoller:
    """Polls the queue position of one job at a limited rate.

    `spent` is the thread's CPU time in seconds, which other load on the machine does not affect.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        clock: Callable[[], float],
        spent: Callable[[], float] = time.thread_time,
    ) -> None:
        self._backend = backend
        self._clock, self._spent = clock, spent
        self._due_at = 0.0
        self._last: QueueChanged | None = None

    def poll(self, job: JobResource) -> list[QueueChanged]:
        """The changed position, if the job waits for nodes and a poll is due."""
        if not job.waits_for_nodes or self._clock() < self._due_at:
            return []
        began = self._spent()
        position = queue_position(self._backend, job)
        cost_s = min(MAX_POLL_S, (self._spent() - began) / MAX_CPU_SHARE)
        self._due_at = self._clock() + max(
            QUEUE_POLL_S, self._backend.capabilities.pace.poll_interval_s, cost_s
        )
        if position == self._last:
            return []
        self._last = position
        return [position]


def queue_position(backend: Backend, job: JobResource) -> QueueChanged:
    """The jobs on the nodes of a queued job's cluster, and those before it."""
    try:
        nodes = backend.nodes(ResourceId.parse(job.spec.cluster.id))
        before = backend.jobs_ahead_of(job)
    except NotFoundError:  # the cluster or the workspace was deleted
        return QueueChanged(job.id)
    on_nodes = (node.job for node in nodes if node.job)
    return QueueChanged(job.id, _other_jobs(job.id, on_nodes), _other_jobs(job.id, before))


def _other_jobs(job_id: ResourceId, jobs: Iterable[ResourceId]) -> tuple[str, ...]:
    """The names of other jobs; this one may have got its nodes since its state was read."""
    others = (job for job in jobs if job.key != job_id.key)
    names = (job.name if job.parent == job_id.parent else f"{job.experiment}/{job.name}" for job in others)
    return tuple(dict.fromkeys(names))


TELEMETRY_POLL_S = 2.0  # poll interval


@dataclass(frozen=True)
class UsageSampled:
    """New usage samples of the job's processes."""

    job: ResourceId
    record: TelemetryRecord


class TelemetryPoller:
    """Polls the samples of one job at intervals, and once more at its end."""

    def __init__(self, backend: Backend, id: ResourceId, *, clock: Callable[[], float]) -> None:
        self._backend = backend
        self._id = id
        self._clock = clock
        self._due_at = 0.0
        self._after = 0.0

    def poll(self, job: JobResource) -> list[UsageSampled]:
        """The new samples, if a poll is due or the job has ended."""
        telemetry = self._backend.telemetry
        is_due = job.state.is_final or self._clock() >= self._due_at
        if telemetry is None or job.state is ExecutionState.QUEUED or not is_due:
            return []
        self._due_at = self._clock() + max(TELEMETRY_POLL_S, self._backend.capabilities.pace.poll_interval_s)
        record = telemetry.read(self._id, after=self._after)
        if not record.samples:
            return []
        self._after = record.samples[-1].time
        return [UsageSampled(self._id, record)]


@dataclass(frozen=True)
class StateChanged:
    """The job's resource changed. The last such event has a final state."""

    job: JobResource


@dataclass(frozen=True)
class NodesChanged:
    """Node counts by state changed, of the job's own nodes or of its cluster."""

    job: ResourceId
    counts: NodeStateCounts
    cluster: NodeStateCounts


@dataclass(frozen=True)
class LogBytes:
    """New bytes of a log, with secrets redacted. `restarted`: a replaced file, discard earlier bytes."""

    file: FileRef
    chunk: Chunk
    restarted: bool = False


@dataclass(frozen=True)
class LogFault:
    """A finished log differs from what the job wrote, as `fault` explains. Precedes the final state."""

    file: FileRef
    fault: str


@dataclass(frozen=True)
class JobFailed:
    """Why the job failed; precedes the final state."""

    job: ResourceId
    error: JobError


@dataclass(frozen=True)
class Standstill:
    """A running job has printed nothing for `limit_s` or longer."""

    job: ResourceId
    since: float  # the time of its last output, or of its start, in seconds since 1970
    limit_s: float  # how long a job may print nothing
    finding: str = ""  # where its ranks are, in a sentence; empty if unknown

    @property
    def sentence(self) -> str:
        """The standstill and its finding, in one or two sentences."""
        return f"Nothing was printed for {duration_text(self.limit_s)}. {self.finding}".rstrip()


@dataclass(frozen=True)
class MetricsAdded:
    """New records of one of the job's logs, in its order; a table creates them on demand."""

    job: ResourceId
    records: tuple[Record, ...] | MeasurementTable
    file: FileRef | None = None  # None for numbers that had waited for another file


@dataclass(frozen=True)
class MetricMismatched:
    """A `--metric` matched text that is not a number, for the first time; `notice` names text and line."""

    job: ResourceId
    notice: str


@dataclass(frozen=True)
class ConnectionLost:
    """The backend does not respond; requests are retried."""

    job: ResourceId
    reason: str

    @property
    def sentence(self) -> str:
        """The sentence for users."""
        return f"Warning: {self.reason}. Trying again; the job continues."


@dataclass(frozen=True)
class ConnectionRestored:
    """The backend responds again; missed events follow."""

    job: ResourceId
    sentence: ClassVar[str] = "Connected again."


Event = (
    StateChanged
    | NodesChanged
    | QueueChanged
    | UsageSampled
    | LogBytes
    | LogFault
    | JobFailed
    | Standstill
    | MetricsAdded
    | MetricMismatched
    | ConnectionLost
    | ConnectionRestored
)
