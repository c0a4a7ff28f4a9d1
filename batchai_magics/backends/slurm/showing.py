"""Records, and where runs stand, become resources as the service would show them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from functools import lru_cache

from batchai_magics.backends.service.descriptions import output_segment, with_image
from batchai_magics.backends.slurm.node.beginning import UNTOLD
from batchai_magics.backends.slurm.node.node_setups import FAILED, SETUP
from batchai_magics.backends.slurm.records import Record
from batchai_magics.backends.slurm.standing import Standing
from batchai_magics.launch.plan import ProcessExit
from batchai_magics.models.cluster import ClusterSpec, NodeStateCounts
from batchai_magics.models.error_details import ErrorDetail, NameValue
from batchai_magics.models.execution import Attempt, ExecutionInfo, RankExit
from batchai_magics.models.file_server import FileServer, FileServerSpec
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.job import JobSpec
from batchai_magics.models.provisioning import Provisioning
from batchai_magics.models.resources import (
    Cluster,
    Experiment,
    JobResource,
    Node,
    Workspace,
    WorkspaceSpec,
)
from batchai_magics.models.states import AllocationState, NodeState


def workspace(record: Record) -> Workspace:
    """A workspace as it stands."""
    spec = WorkspaceSpec.from_stored(record.spec)
    return Workspace(record.resource_id, spec.location, _provisioning(record), spec.tags or {})


def experiment(record: Record) -> Experiment:
    """An experiment as it stands."""
    return Experiment(record.resource_id, _provisioning(record))


def file_server(record: Record) -> FileServer:
    """A file server as it stands: a folder that all nodes share, so it has no address."""
    return FileServer(record.resource_id, FileServerSpec.from_stored(record.spec), _provisioning(record))


def cluster(record: Record, found: Sequence[tuple[Node, str]], other_partition: str = "") -> Cluster:
    """A cluster as it stands, with its nodes, each with why it cannot be used.

    `other_partition` is what is to be said where its partition is not the one of the settings.
    """
    states = [node.state for node, _ in found]
    is_moving = NodeState.PREPARING in states or NodeState.LEAVING in states
    return Cluster(
        id=record.resource_id,
        spec=cluster_spec(record.spec),
        provisioning=_provisioning(record),
        allocation_state=AllocationState.RESIZING if is_moving else AllocationState.STEADY,
        allocation_changed=moment(record.more["changed"]),
        node_states=NodeStateCounts(
            **{f"{state.value}_node_count": states.count(state) for state in NodeState}
        ),
        errors=(
            *([ErrorDetail(code="PartitionDiffers", message=other_partition)] if other_partition else []),
            *(_node_error(node, reason) for node, reason in found if reason),
        ),
    )


def job(record: Record, standing: Standing) -> JobResource:
    """A job as it stands."""
    ranks = standing.end.outcome.ranks if standing.end else ()
    return JobResource(
        id=record.resource_id,
        spec=job_spec(record.spec),
        provisioning=_provisioning(record),
        state=standing.state,
        state_changed=moment(standing.changed or record.created),
        output_path_segment=output_segment(record.resource_id, record.guid),
        execution=_execution(standing),
        ranks=tuple(_rank(end) for end in ranks),
        waiting=standing.waiting,
        attempts=tuple(_attempts(standing)),
    )


def nodes(id: ResourceId, standing: Standing) -> list[Node]:
    """The nodes that belong to a job now."""
    begun = standing.begun if standing.holds_nodes else None
    if begun is None:
        return []
    since = moment(begun.time)
    return [Node(name, NodeState.RUNNING, id, ip_address=name, since=since) for name in begun.nodes]


@lru_cache(maxsize=4096)
def job_spec(text: str) -> JobSpec:
    """The job description in a record; the same one for the same text, since descriptions never change."""
    return JobSpec.from_stored(text)


@lru_cache(maxsize=256)
def cluster_spec(text: str) -> ClusterSpec:
    """The cluster description in a record, with what the service adds to it."""
    return with_image(ClusterSpec.from_stored(text))


def moment(seconds: float) -> datetime:
    """A time in seconds since 1970 as a value."""
    return datetime.fromtimestamp(seconds, timezone.utc)


def _provisioning(record: Record) -> Provisioning:
    created = moment(record.created)
    return Provisioning(created, created)


def _node_error(node: Node, reason: str) -> ErrorDetail:
    code = FAILED if reason.startswith(SETUP) else "NodeUnusable"
    return ErrorDetail(code=code, message=reason, details=(NameValue(name="NodeId", value=node.id),))


def _execution(standing: Standing) -> ExecutionInfo | None:
    begun, end = standing.begun, standing.end
    if end is None:
        return ExecutionInfo(started=moment(begun.time)) if begun else None
    errors = (*end.outcome.errors, *end.outcome.warnings)
    return ExecutionInfo(
        started=moment(begun.time if begun else end.ended),
        ended=moment(end.ended),
        exit_code=end.outcome.exit_code,
        errors=tuple(ErrorDetail.from_wire(error) for error in errors),
    )


def _attempts(standing: Standing) -> Iterator[Attempt]:
    """Each time that the job was begun. One that left no word was over when the next one began."""
    later = [begun.time for begun, _ in standing.beginnings[1:]]
    for number, (begun, left) in enumerate(standing.beginnings, start=1):
        is_latest = number == len(standing.beginnings)
        ended = left.time if left else None if is_latest else later[number - 1]
        reason = left.reason if left else "" if is_latest else UNTOLD
        yield Attempt(number, begun.nodes, moment(begun.time), moment(ended) if ended else None, reason)


def _rank(end: ProcessExit) -> RankExit:
    ended = None if end.ended is None else moment(end.ended)
    return RankExit(end.rank, end.node, end.exit_code, ended, end.peak_bytes)
