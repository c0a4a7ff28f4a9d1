"""Rows of the store become resources, as the service would show them."""

from __future__ import annotations

import json
import sqlite3
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

from batchai_magics.backends.local.state import nodes
from batchai_magics.backends.local.watch.planning import output_segment
from batchai_magics.models.cluster import ClusterSpec
from batchai_magics.models.execution import ErrorDetail, ExecutionInfo, NameValue, RankExit
from batchai_magics.models.file_server import FileServer, FileServerSpec
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.job import JobSpec
from batchai_magics.models.provisioning import Provisioning
from batchai_magics.models.resources import Cluster, Experiment, JobResource, Node, Resource, Workspace
from batchai_magics.models.states import AllocationState, ExecutionState, NodeState


def resource(db: sqlite3.Connection, row: sqlite3.Row) -> Resource:
    """The resource of a row of the `resource` table, with what the other tables know of it."""
    id, created = ResourceId.parse(row["id"]), moment(row["created"])
    provisioning = Provisioning(created, created)
    if id.kind is Kind.JOB:
        return _job(db, id, job_spec(row["spec"]), provisioning)
    if id.kind is Kind.CLUSTER:
        return _cluster(db, id, cluster_spec(row["spec"]), provisioning)
    if id.kind is Kind.FILE_SERVER:
        return FileServer(id, FileServerSpec.from_stored(row["spec"]), provisioning)
    if id.kind is Kind.EXPERIMENT:
        return Experiment(id, provisioning)
    return Workspace(id, json.loads(row["spec"])["location"], provisioning)


@lru_cache(maxsize=4096)
def job_spec(text: str) -> JobSpec:
    """The job description in a row; the same one for the same text, since descriptions never change."""
    return JobSpec.from_stored(text)


@lru_cache(maxsize=256)
def cluster_spec(text: str) -> ClusterSpec:
    """The cluster description in a row."""
    return ClusterSpec.from_stored(text)


def _cluster(db: sqlite3.Connection, id: ResourceId, spec: ClusterSpec, made: Provisioning) -> Cluster:
    row = db.execute("SELECT * FROM cluster WHERE key = ?", (id.key,)).fetchone()
    states = nodes.counts(db, id.key)
    bad = db.execute("SELECT id, error FROM node WHERE cluster = ? AND error != ''", (id.key,)).fetchall()
    is_steady = states.total == row["target"] and not (
        states.preparing_node_count or states.leaving_node_count
    )
    return Cluster(
        id=id,
        spec=spec,
        provisioning=made,
        allocation_state=AllocationState.STEADY if is_steady else AllocationState.RESIZING,
        allocation_changed=moment(row["changed"]),
        node_states=states,
        errors=tuple(_node_error(node) for node in bad),
    )


def _node_error(node: sqlite3.Row) -> ErrorDetail:
    details = (NameValue(name="NodeId", value=node["id"]),)
    return ErrorDetail(code="NodeSetupFailed", message=node["error"], details=details)


def _job(db: sqlite3.Connection, id: ResourceId, spec: JobSpec, made: Provisioning) -> JobResource:
    row = db.execute("SELECT * FROM job WHERE key = ?", (id.key,)).fetchone()
    return JobResource(
        id=id,
        spec=spec,
        provisioning=made,
        state=ExecutionState(row["state"]),
        state_changed=moment(row["changed"]),
        output_path_segment=output_segment(id, row["guid"]),
        execution=_execution(row),
        ranks=tuple(_rank(item) for item in json.loads(row["ranks"])),
    )


def _execution(row: sqlite3.Row) -> ExecutionInfo | None:
    if row["started"] is None:
        return None
    return ExecutionInfo(
        started=moment(row["started"]),
        ended=None if row["ended"] is None else moment(row["ended"]),
        exit_code=row["exit_code"],
        errors=tuple(ErrorDetail.from_wire(item) for item in json.loads(row["errors"])),
    )


def _rank(item: dict[str, Any]) -> RankExit:
    ended = None if item["ended"] is None else moment(item["ended"])
    return RankExit(item["rank"], item["node"], item["exit_code"], ended)


def node(row: sqlite3.Row) -> Node:
    """A node from a row of the `node` table joined with its job's id."""
    job = ResourceId.parse(row["job_id"]) if row["job_id"] else None
    return Node(row["id"], NodeState(row["state"]), job, since=moment(row["since"]))


def moment(seconds: float) -> datetime:
    """A stored time (seconds since 1970, UTC) as a value."""
    return datetime.fromtimestamp(seconds, timezone.utc)
