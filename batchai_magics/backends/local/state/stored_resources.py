"""Resources as rows of the database describe them.

A job's fields are parsed when they are read: a list has thousands of jobs and few fields are used. Other
resources are built from their pydantic specs, in `stored_specs`, which is loaded for them alone.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any

from batchai_magics.backends.base import Listing, Page
from batchai_magics.backends.local.state import resource_table
from batchai_magics.backends.local.state.job_table import Attempts, has_history
from batchai_magics.backends.local.state.node_table import NodeRow
from batchai_magics.backends.local.state.resource_table import ResourceRow
from batchai_magics.backends.local.state.table_rows import columns, query_in_batches, to_datetime
from batchai_magics.backends.service.descriptions import output_segment
from batchai_magics.models.job_execution import Attempt, ExecutionInfo, RankExit
from batchai_magics.models.provisioning import Provisioning
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.resources.job_resource import KeptJob
from batchai_magics.models.states import ExecutionState

if TYPE_CHECKING:
    from batchai_magics.models.error_details import ErrorDetail
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.resources import Node, Resource


_COLUMNS = (
    "id, seq, spec, created, job.guid, state, changed, started, ended, exit_code, errors, ranks, attempts"
)
_QUERY = f"SELECT {_COLUMNS} FROM resource CROSS JOIN job USING (key) WHERE"
_ATTEMPT_END = '"ended"'  # in the stored attempts of a requeued job


class StoredJob:
    """The fields of a JobResource, parsed from the job's row on access."""

    waiting = ""

    def __init__(self, row: sqlite3.Row) -> None:
        self._row = row

    @cached_property
    def id(self) -> ResourceId:
        """The ARM id."""
        return ResourceId.parse(self._row["id"])

    @property
    def spec(self) -> JobSpec:
        """The spec."""
        return job_spec(self._row["spec"])

    @property
    def kept(self) -> KeptJob | None:
        """The stored values, which lists print unparsed; None for a job with attempts, which are parsed."""
        id, _, description, created, guid, state, changed, *ran, _, attempts = self._row
        if _ATTEMPT_END in attempts:
            return None
        above, _, name = id.rpartition("/")
        group, segment = _group_and_segment(above)
        run = f"{segment}{name}/{guid}"
        return KeptJob(id, name, group, description, run, created, state, changed, *ran)

    @property
    def provisioning(self) -> Provisioning:
        """When the job was created."""
        created = to_datetime(self._row["created"])
        return Provisioning(created, created)

    @property
    def state(self) -> ExecutionState:
        """The execution state."""
        return ExecutionState(self._row["state"])

    @property
    def state_changed(self) -> datetime:
        """When it entered that state."""
        return to_datetime(self._row["changed"])

    @property
    def output_path_segment(self) -> str:
        """The path of the run below each output prefix."""
        return output_segment(self.id, self._row["guid"])

    @property
    def execution(self) -> ExecutionInfo | None:
        """Times, exit code and errors; None before the job starts."""
        row = self._row
        if row["started"] is None:
            return None
        return ExecutionInfo(
            started=to_datetime(row["started"]),
            ended=None if row["ended"] is None else to_datetime(row["ended"]),
            exit_code=row["exit_code"],
            errors=_errors(row["errors"]),
        )

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """All attempts, if the job was ever requeued."""
        told: Attempts = () if self._row["attempts"] == "[]" else tuple(json.loads(self._row["attempts"]))
        return tuple(map(_attempt, told, count(1))) if has_history(told) else ()

    @property
    def ranks(self) -> tuple[RankExit, ...]:
        """The exits of the ranks, the first failure first."""
        return tuple(map(_rank, json.loads(self._row["ranks"])))


def list_jobs(
    db: sqlite3.Connection, parent: ResourceId, page: Page
) -> tuple[list[JobResource], Page | None]:
    """The jobs of an experiment, oldest first, and the next page."""
    size = -1 if page.size is None else page.size + 1
    query = f"{_QUERY} parent = ? AND kind = ? AND seq > ? ORDER BY seq LIMIT ?"
    rows = db.execute(query, (parent.key, Kind.JOB.value, int(page.after or 0), size)).fetchall()
    shown = rows[: page.size]
    after = None if len(rows) == len(shown) else Page(page.size, str(shown[-1]["seq"]))
    return list(map(_job, shown)), after


def find_jobs(db: sqlite3.Connection, keys: Sequence[str]) -> list[JobResource]:
    """The jobs of these that exist, in any order."""
    return [_job(row) for row in query_in_batches(db, f"{_QUERY} key IN", keys)]


@lru_cache(maxsize=256)
def _group_and_segment(above: str) -> tuple[str, str]:
    """The resource group and output path prefix of the jobs below an experiment."""
    id = ResourceId.parse(f"{above}/x")
    return id.group, output_segment(id, "").removesuffix("x/")


@lru_cache(maxsize=4096)
def job_spec(text: str) -> JobSpec:
    """The job spec in a row, cached, since specs of jobs never change."""
    from batchai_magics.models.job_spec import JobSpec  # lists print the text unparsed

    return JobSpec.from_stored(text)


@lru_cache(maxsize=1024)
def _errors(text: str) -> tuple[ErrorDetail, ...]:
    """The errors in a row, cached, since many jobs fail alike."""
    from batchai_magics.models.error_details import ErrorDetail

    return tuple(map(ErrorDetail.of_stored, json.loads(text)))


def _job(row: sqlite3.Row) -> JobResource:
    return JobResource.reading_later(StoredJob(row))


def _attempt(item: Mapping[str, Any], number: int) -> Attempt:
    ended = to_datetime(item["ended"]) if "ended" in item else None
    return Attempt(number, tuple(item["nodes"]), to_datetime(item["started"]), ended, item.get("reason", ""))


def _rank(item: dict[str, Any]) -> RankExit:
    ended = None if item["ended"] is None else to_datetime(item["ended"])
    return RankExit(item["rank"], item["node"], item["exit_code"], ended, item.get("peak_bytes"))


LOOPBACK = "127.0.0.1"  # the address of all nodes


def list_inside(db: sqlite3.Connection, parent: ResourceId, kind: Kind, page: Page) -> Listing:
    """The resources of a kind inside `parent`, oldest first; all workspaces of its resource group."""
    if kind is Kind.JOB:
        return Listing(*list_jobs(db, parent, page))
    found = resource_table.children(db, parent, kind, page)
    shown = found[: page.size]
    after = None if len(found) == len(shown) else Page(page.size, str(shown[-1].seq))
    return Listing([resource_view(db, row) for row in shown], after)


def find_many(db: sqlite3.Connection, ids: Collection[ResourceId]) -> list[Resource]:
    """The resources of these that exist; jobs are read in one query."""
    runs = find_jobs(db, [id.key for id in ids if id.kind is Kind.JOB])
    others = resource_table.find_many(db, [id for id in ids if id.kind is not Kind.JOB])
    return [*runs, *(resource_view(db, row) for row in others)]


def resource_view(db: sqlite3.Connection, row: ResourceRow) -> Resource:
    """A resource from its row and related tables."""
    if row.id.kind is Kind.JOB:
        return find_jobs(db, [row.id.key])[0]
    from batchai_magics.backends.local.state import stored_specs  # loads the models, which jobs do not need

    return stored_specs.resource(db, row)


def nodes_of(db: sqlite3.Connection, id: ResourceId) -> list[Node]:
    """The nodes of a cluster or job, each with the job that it runs."""
    column = "node.cluster" if id.kind is Kind.CLUSTER else "job.key"
    query = (
        "SELECT node.*, resource.id AS job_id FROM node LEFT JOIN job ON job.guid = node.job"
        f" LEFT JOIN resource ON resource.key = job.key WHERE {column} = ? ORDER BY ordinal"
    )
    return [_node(**columns(row)) for row in db.execute(query, (id.key,)).fetchall()]


def jobs_ahead_of(db: sqlite3.Connection, id: ResourceId) -> list[ResourceId]:
    """The queued jobs that are scheduled before one, in order."""
    query = (
        "SELECT resource.id FROM job JOIN job AS own ON own.key = ? JOIN resource ON resource.key = job.key"
        " WHERE job.cluster = own.cluster AND job.state = ? AND job.is_assigned = 0"
        " AND (job.priority > own.priority OR (job.priority = own.priority AND job.rowid < own.rowid))"
        " ORDER BY job.priority DESC, job.rowid"
    )
    rows = db.execute(query, (id.key, ExecutionState.QUEUED.value))
    return [ResourceId.parse(found) for (found,) in rows]


def _node(*, job_id: str | None, **columns: Any) -> Node:
    from batchai_magics.models.resources import Node

    row, job = NodeRow.of(columns), ResourceId.parse(job_id) if job_id else None
    return Node(row.id, row.state, job, LOOPBACK, since=to_datetime(row.since))
