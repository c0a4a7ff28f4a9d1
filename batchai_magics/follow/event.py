"""What happens to a job, as a look at it tells: state, nodes, queue, use, bytes and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from batchai_magics.backends.base import Chunk, FileRef
from batchai_magics.follow.queue import QueueSeen
from batchai_magics.follow.telemetry import UseSeen
from batchai_magics.metrics.record import Record
from batchai_magics.models.cluster import NodeStateCounts
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.resources import JobResource

if TYPE_CHECKING:
    from batchai_magics.metrics.reading.bulk.columns import Columns


@dataclass(frozen=True)
class StateChanged:
    """The job's state, or what it tells about itself, is new. The last one has a final state."""

    job: JobResource


@dataclass(frozen=True)
class NodesChanged:
    """The states of the job's own nodes are new, or those of its cluster's."""

    job: ResourceId
    counts: NodeStateCounts
    cluster: NodeStateCounts


@dataclass(frozen=True)
class LogBytes:
    """New bytes of a log file, secrets hidden. `restarted`: it was cut, and what was read before is void."""

    file: FileRef
    chunk: Chunk
    restarted: bool = False


@dataclass(frozen=True)
class LogFault:
    """A finished log is not what was written: what is wrong with it. Comes before the final state."""

    file: FileRef
    fault: str


@dataclass(frozen=True)
class MetricsSeen:
    """New records of the job's stdout, in file order: a tuple, or `Columns`, which make them when asked."""

    job: ResourceId
    records: tuple[Record, ...] | Columns


@dataclass(frozen=True)
class Unreached:
    """The backend does not answer any more; it is asked again."""

    job: ResourceId
    reason: str


@dataclass(frozen=True)
class Reached:
    """The backend answers again; what it did meanwhile follows."""

    job: ResourceId


Event = (
    StateChanged
    | NodesChanged
    | QueueSeen
    | UseSeen
    | LogBytes
    | LogFault
    | MetricsSeen
    | Unreached
    | Reached
)
