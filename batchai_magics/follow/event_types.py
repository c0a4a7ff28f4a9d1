"""The events of a job: state, nodes, queue, resource usage, log bytes and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from batchai_magics.backends.base import Chunk, FileRef
from batchai_magics.follow.job_pollers import QueueChanged, UsageSampled
from batchai_magics.metrics.record import Record
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import JobResource

if TYPE_CHECKING:
    from batchai_magics.metrics.columns.record_columns import Columns


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
    """A finished log differs from what was written; `fault` says how. Precedes the final state."""

    file: FileRef
    fault: str


@dataclass(frozen=True)
class MetricsAdded:
    """New records of the job's stdout, in file order: a tuple, or `Columns`, which create them on demand."""

    job: ResourceId
    records: tuple[Record, ...] | Columns


@dataclass(frozen=True)
class MetricMismatched:
    """A `--metric` matched what is not a number, for the first time; `notice` says what and where."""

    job: ResourceId
    notice: str


@dataclass(frozen=True)
class ConnectionLost:
    """The backend does not respond; requests are retried."""

    job: ResourceId
    reason: str


@dataclass(frozen=True)
class ConnectionRestored:
    """The backend responds again; missed events follow."""

    job: ResourceId


Event = (
    StateChanged
    | NodesChanged
    | QueueChanged
    | UsageSampled
    | LogBytes
    | LogFault
    | MetricsAdded
    | MetricMismatched
    | ConnectionLost
    | ConnectionRestored
)
