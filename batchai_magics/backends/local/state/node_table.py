"""The `cluster` and `node` tables: target sizes; creation, preparation, assignment and removal of nodes."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.node.restarts import RESIZED
from batchai_magics.models.states import DeallocationOption, NodeState


class ClusterRow(NamedTuple):
    """One cluster, by the guid of its record."""

    guid: str
    changed: float  # when its target was set
    target: int = 0  # desired number of nodes
    minimum: int | None = None  # of an auto-scale cluster
    maximum: int | None = None
    idle_s: float = 0.0  # how long a node of an auto-scale cluster may be idle
    next_ordinal: int = 0  # of the next node that is made


def add_cluster(db: sqlite3.Connection, guid: str, *, idle_s: float) -> None:
    """Inserts the cluster of a record, without nodes, unless it was inserted before."""
    db.execute(
        "INSERT OR IGNORE INTO cluster (guid, target, idle_s, changed)"
        " SELECT guid, 0, ?, ? FROM resource WHERE guid = ?",
        (idle_s, time.time(), guid),
    )


def find_cluster(db: sqlite3.Connection, guid: str) -> ClusterRow | None:
    """The cluster with that guid, or None."""
    row = db.execute("SELECT * FROM cluster WHERE guid = ?", (guid,)).fetchone()
    return ClusterRow(**dict(row)) if row else None


def auto_scaled_clusters(db: sqlite3.Connection, guid: str = "") -> list[ClusterRow]:
    """The auto-scale clusters, or only the one with that guid."""
    query = "SELECT * FROM cluster WHERE maximum IS NOT NULL AND ? IN ('', guid)"
    return [ClusterRow(**dict(row)) for row in db.execute(query, (guid,))]


def set_bounds(db: sqlite3.Connection, guid: str, minimum: int | None, maximum: int | None) -> None:
    """Sets the auto-scale bounds of a cluster; None for a fixed size."""
    db.execute("UPDATE cluster SET minimum = ?, maximum = ? WHERE guid = ?", (minimum, maximum, guid))


def new_ordinals(db: sqlite3.Connection, guid: str, count: int) -> range:
    """The ordinals of so many new nodes of an existing cluster."""
    statement = "UPDATE cluster SET next_ordinal = next_ordinal + ? WHERE guid = ? RETURNING next_ordinal"
    ((end,),) = db.execute(statement, (count, guid)).fetchall()
    return range(end - count, end)


class NodeRow(NamedTuple):
    """One node."""

    id: str
    cluster: str  # the guid of its cluster
    ordinal: int  # never given twice in a cluster
    state: NodeState
    since: float  # when it entered its state
    job: str | None = None  # the guid of the run that it belongs to
    preparer: str = ""  # the process that makes it ready
    error: str = ""  # why it cannot be used


class ClusterNode(NamedTuple):
    """A node with its position in its cluster, and the GPUs that a job, or all jobs, share of it."""

    id: str
    mates: int  # how many nodes its cluster has
    position: int  # how many of them come before it
    gpus: str  # separated by commas; empty for none, and of a job that has the whole node


_POSITION = (
    "SELECT node.id,"
    " (SELECT count(*) FROM node AS mate WHERE mate.cluster = node.cluster) AS mates,"
    " (SELECT count(*) FROM node AS mate WHERE mate.cluster = node.cluster"
    " AND mate.ordinal < node.ordinal) AS position"
)


def of_cluster(db: sqlite3.Connection, cluster: str) -> list[NodeRow]:
    """The nodes of a cluster, by creation."""
    return _all(db, "SELECT * FROM node WHERE cluster = ? ORDER BY ordinal", cluster)


def not_leaving(db: sqlite3.Connection, cluster: str) -> list[NodeRow]:
    """The nodes of a cluster that are not leaving, in order of removal."""
    query = (
        "SELECT * FROM node WHERE cluster = ? AND state != ?"
        " ORDER BY state = ?, state != ?, since, ordinal DESC"
    )
    order = (NodeState.LEAVING, NodeState.RUNNING, NodeState.UNUSABLE)
    return _all(db, query, cluster, *(state.value for state in order))


def job_nodes(db: sqlite3.Connection, guid: str) -> list[ClusterNode]:
    """The nodes assigned to a run."""
    held = "node_run AS held JOIN node ON node.id = held.node WHERE held.job = ?"
    query = f"{_POSITION}, held.gpus FROM {held} ORDER BY ordinal"
    return [ClusterNode(**dict(row)) for row in db.execute(query, (guid,))]


def preparing(db: sqlite3.Connection, id: str = "") -> list[NodeRow]:
    """The nodes that are not ready yet, or only the one with that id."""
    query = "SELECT * FROM node WHERE state = ? AND ? IN ('', id)"
    return _all(db, query, NodeState.PREPARING.value, id)


def ids(db: sqlite3.Connection) -> set[str]:
    """The ids of all nodes."""
    return {id for (id,) in db.execute("SELECT id FROM node")}


def has_node(db: sqlite3.Connection, cluster: str, id: str = "") -> bool:
    """Whether a cluster has a node, or has that node."""
    query = "SELECT 1 FROM node WHERE cluster = ? AND ? IN ('', id)"
    return db.execute(query, (cluster, id)).fetchone() is not None


# -- preparation and assignment


def finish_preparation(db: sqlite3.Connection, id: str, problem: str) -> None:
    """Records that a node is ready, or why it is unusable."""
    state = NodeState.UNUSABLE if problem else NodeState.IDLE
    db.execute(
        "UPDATE node SET state = ?, error = ?, since = ? WHERE id = ? AND state = ?",
        (state.value, problem, time.time(), id, NodeState.PREPARING.value),
    )


def preparers(db: sqlite3.Connection) -> list[str]:
    """The processes that prepare nodes."""
    return [preparer for (preparer,) in db.execute("SELECT preparer FROM node WHERE preparer != ''")]


def hold(db: sqlite3.Connection, cluster: str, preparer: str) -> None:
    """Leaves the nodes of a new cluster to the process that has the secrets of its setup task."""
    db.execute("UPDATE node SET preparer = ? WHERE cluster = ?", (preparer, cluster))


def give_up(db: sqlite3.Connection, cluster: str, preparer: str) -> None:
    """Clears a process as the preparer of a cluster's nodes."""
    db.execute("UPDATE node SET preparer = '' WHERE cluster = ? AND preparer = ?", (cluster, preparer))


def claim(db: sqlite3.Connection, node: NodeRow, preparer: str) -> bool:
    """Makes a process the preparer of a node; False if another one has become that."""
    statement = "UPDATE node SET preparer = ? WHERE id = ? AND preparer = ?"
    return db.execute(statement, (preparer, node.id, node.preparer)).rowcount == 1


def set_preparer(db: sqlite3.Connection, id: str, preparer: str) -> None:
    """Sets the process that prepares a node."""
    db.execute("UPDATE node SET preparer = ? WHERE id = ?", (preparer, id))


def assign(db: sqlite3.Connection, cluster: str, job: job_table.JobRow) -> bool:
    """Assigns idle nodes of a cluster to a job; False, without change, if there are too few."""
    query = "SELECT id FROM node WHERE cluster = ? AND state = ? ORDER BY ordinal LIMIT ?"
    idle = db.execute(query, (cluster, NodeState.IDLE.value, job.node_count)).fetchall()
    if len(idle) < job.node_count:
        return False
    db.executemany(
        "UPDATE node SET state = ?, since = ?, job = ? WHERE id = ?",
        [(NodeState.RUNNING.value, time.time(), job.guid, id) for (id,) in idle],
    )
    return True


def shared_nodes(db: sqlite3.Connection, cluster: str) -> list[ClusterNode]:
    """The nodes of a cluster that share their GPUs already, then those that are idle."""
    used = "SELECT group_concat(gpus) FROM gpu_share WHERE gpu_share.node = node.id"
    query = (
        f"{_POSITION}, coalesce(({used}), '') AS gpus FROM node"
        " WHERE cluster = ? AND (state = ? OR (state = ? AND job IS NULL)) ORDER BY gpus = '', ordinal"
    )
    values = (cluster, NodeState.IDLE.value, NodeState.RUNNING.value)
    return [ClusterNode(**dict(row)) for row in db.execute(query, values)]


def assign_gpus(db: sqlite3.Connection, guid: str, gpus: Mapping[str, Sequence[str]]) -> None:
    """Assigns some GPUs of nodes (by id) to a run."""
    for id, names in gpus.items():
        db.execute("INSERT INTO gpu_share (job, node, gpus) VALUES (?, ?, ?)", (guid, id, ",".join(names)))
        statement = "UPDATE node SET state = ?, since = ? WHERE id = ? AND state = ?"
        db.execute(statement, (NodeState.RUNNING.value, time.time(), id, NodeState.IDLE.value))


def release(db: sqlite3.Connection, guid: str) -> None:
    """Returns the nodes of a run to idle, and deletes those that were leaving."""
    # A node whose last GPUs come back is free, too.
    nodes = [node for (node,) in db.execute("SELECT node FROM gpu_share WHERE job = ?", (guid,))]
    db.execute("DELETE FROM gpu_share WHERE job = ?", (guid,))
    for id in nodes:
        is_unused = "id = ? AND NOT EXISTS (SELECT 1 FROM gpu_share WHERE node = id)"
        db.execute(f"DELETE FROM node WHERE {is_unused} AND state = ?", (id, NodeState.LEAVING.value))
        statement = f"UPDATE node SET state = ?, since = ? WHERE {is_unused}"
        db.execute(statement, (NodeState.IDLE.value, time.time(), id))
    db.execute("DELETE FROM node WHERE job = ? AND state = ?", (guid, NodeState.LEAVING.value))
    db.execute(
        "UPDATE node SET state = ?, since = ?, job = NULL WHERE job = ?",
        (NodeState.IDLE.value, time.time(), guid),
    )


# -- creation and removal


def resize(db: sqlite3.Connection, cluster: str, target: int, option: DeallocationOption) -> list[str]:
    """Adds or removes nodes; returns the guids of jobs that have to stop."""
    present, now = not_leaving(db, cluster), time.time()
    changed = "SELECT guid FROM cluster WHERE guid = ? AND target != ?"  # what the service shows
    statement = f"UPDATE resource SET more = json_set(more, '$.changed', ?) WHERE guid IN ({changed})"
    db.execute(statement, (now, cluster, target))
    db.execute("UPDATE cluster SET target = ?, changed = ? WHERE guid = ?", (target, now, cluster))
    if target > len(present):
        import hashlib  # loads OpenSSL, which supervisors do not need

        digest = int(hashlib.sha256(cluster.encode()).hexdigest()[:8], 16)
        created = time.strftime("%Y%m%dt%H%M%Sz", time.gmtime(now))
        for ordinal in new_ordinals(db, cluster, target - len(present)):
            id = f"tvm-{digest}_{ordinal + 1}-{created}-p"  # as the service names nodes
            values = (id, cluster, ordinal, NodeState.PREPARING.value, now)
            db.execute("INSERT INTO node (id, cluster, ordinal, state, since) VALUES (?, ?, ?, ?, ?)", values)
    return _remove(db, present[: max(0, len(present) - target)], option, RESIZED)


def preempt(db: sqlite3.Connection, node: NodeRow) -> list[str]:
    """Replaces a node; returns the guid of the job that is requeued, if any."""
    stopped = _remove(db, [node], DeallocationOption.REQUEUE, f"its node {node.id} was preempted")
    if cluster := find_cluster(db, node.cluster):
        resize(db, cluster.guid, cluster.target, DeallocationOption.REQUEUE)
    return stopped


def _remove(
    db: sqlite3.Connection, leaving: Sequence[NodeRow], option: DeallocationOption, why: str
) -> list[str]:
    stopped = []
    for node in leaving:
        guids = [guid for (guid,) in db.execute("SELECT job FROM node_run WHERE node = ?", (node.id,))]
        if node.state is not NodeState.RUNNING or not guids:
            db.execute("DELETE FROM node WHERE id = ?", (node.id,))
            continue
        db.execute("UPDATE node SET state = ? WHERE id = ?", (NodeState.LEAVING.value, node.id))
        if option is not DeallocationOption.WAIT_FOR_JOB_COMPLETION:
            for guid in guids:
                job_table.ask_to_stop(db, guid, option.value, again=why)
            stopped += guids
    return stopped


def _all(db: sqlite3.Connection, query: str, *values: object) -> list[NodeRow]:
    return [
        NodeRow(**{**dict(row), "state": NodeState(row["state"])})
        for row in db.execute(query, values).fetchall()
    ]
