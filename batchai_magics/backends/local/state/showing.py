"""Rows of the store become resources, as the service would show them."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from batchai_magics.backends.base import Listing, Page
from batchai_magics.backends.local.state import resources, stored_jobs
from batchai_magics.backends.local.state.nodes import NodeRow
from batchai_magics.backends.local.state.resources import ResourceRow
from batchai_magics.backends.local.state.rows import columns, moment
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.states import ExecutionState

if TYPE_CHECKING:
    from batchai_magics.models.resources import Node, Resource

LOOPBACK = "127.0.0.1"  # where all nodes of this machine are


def inside(db: sqlite3.Connection, parent: ResourceId, kind: Kind, page: Page) -> Listing:
    """The resources of a kind inside `parent`, oldest first; all workspaces of its resource group."""
    if kind is Kind.JOB:
        return Listing(*stored_jobs.inside(db, parent, page))
    found = resources.children(db, parent, kind, page)
    shown = found[: page.size]
    after = None if len(found) == len(shown) else Page(page.size, str(shown[-1].seq))
    return Listing([resource(db, row) for row in shown], after)


def some(db: sqlite3.Connection, ids: Collection[ResourceId]) -> list[Resource]:
    """Those of these resources that there are; the jobs among them are asked for at once."""
    runs = stored_jobs.some(db, [id.key for id in ids if id.kind is Kind.JOB])
    others = resources.some(db, [id for id in ids if id.kind is not Kind.JOB])
    return [*runs, *(resource(db, row) for row in others)]


def resource(db: sqlite3.Connection, row: ResourceRow) -> Resource:
    """A resource as it stands, from its row and what the other tables know of it."""
    if row.id.kind is Kind.JOB:
        return stored_jobs.some(db, [row.id.key])[0]
    from batchai_magics.backends.local.state import described  # it loads the models, jobs need none

    return described.resource(db, row)


def nodes_of(db: sqlite3.Connection, id: ResourceId) -> list[Node]:
    """The nodes of a cluster, or those that a job has, each with the job that it runs."""
    column = "node.cluster" if id.kind is Kind.CLUSTER else "job.key"
    query = (
        "SELECT node.*, resource.id AS job_id FROM node LEFT JOIN job ON job.guid = node.job"
        f" LEFT JOIN resource ON resource.key = job.key WHERE {column} = ? ORDER BY ordinal"
    )
    return [_node(**columns(row)) for row in db.execute(query, (id.key,)).fetchall()]


def ahead(db: sqlite3.Connection, id: ResourceId) -> list[ResourceId]:
    """The jobs that get nodes before one that waits, in their turn."""
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
    return Node(row.id, row.state, job, LOOPBACK, since=moment(row.since))
