"""A cluster's nodes: made, prepared, sent away; their states are counted from what is so."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from datetime import datetime, timezone

from batchai_magics.backends.local.state.store import Store
from batchai_magics.errors import NotFoundError
from batchai_magics.models.cluster import NodeStateCounts
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.states import DeallocationOption, NodeState


def resize(db: sqlite3.Connection, key: str, target: int, option: DeallocationOption) -> list[str]:
    """Adds or removes nodes in an open transaction; gives the guids of jobs that have to stop for it."""
    cluster = db.execute("SELECT * FROM cluster WHERE key = ?", (key,)).fetchone()
    db.execute("UPDATE cluster SET target = ?, changed = ? WHERE key = ?", (target, time.time(), key))
    staying = db.execute(
        "SELECT * FROM node WHERE cluster = ? AND state != 'leaving'"
        " ORDER BY state = 'running', state != 'unusable', since, ordinal DESC",
        (key,),
    ).fetchall()
    for offset in range(target - len(staying)):
        _add(db, cluster, cluster["next_ordinal"] + offset)
    if target > len(staying):
        db.execute(
            "UPDATE cluster SET next_ordinal = next_ordinal + ? WHERE key = ?", (target - len(staying), key)
        )
    return _send_away(db, staying[: max(0, len(staying) - target)], option)


def _add(db: sqlite3.Connection, cluster: sqlite3.Row, ordinal: int) -> None:
    digest = int(hashlib.sha256(cluster["guid"].encode()).hexdigest()[:8], 16)
    now = datetime.now(timezone.utc).strftime("%Y%m%dt%H%M%Sz").lower()
    node = f"tvm-{digest}_{ordinal + 1}-{now}-p"
    db.execute(
        "INSERT INTO node (id, cluster, ordinal, state, since) VALUES (?, ?, ?, 'preparing', ?)",
        (node, cluster["key"], ordinal, time.time()),
    )


def _send_away(db: sqlite3.Connection, leaving: list[sqlite3.Row], option: DeallocationOption) -> list[str]:
    stopped = []
    for node in leaving:
        if node["state"] != "running":
            db.execute("DELETE FROM node WHERE id = ?", (node["id"],))
            continue
        db.execute("UPDATE node SET state = 'leaving' WHERE id = ?", (node["id"],))
        if option is not DeallocationOption.WAIT_FOR_JOB_COMPLETION:
            word = "requeue" if option is DeallocationOption.REQUEUE else "terminate"
            db.execute("UPDATE job SET stop = ? WHERE guid = ? AND stop = ''", (word, node["job"]))
            stopped.append(node["job"])
    return stopped


def preempt(store: Store, cluster: ResourceId, node_id: str) -> list[str]:
    """Replaces a node by a new one; gives the guid of the job that has to start again for it."""
    with store.write() as db:
        row = db.execute("SELECT * FROM node WHERE id = ? AND cluster = ?", (node_id, cluster.key)).fetchone()
        if row is None:
            raise NotFoundError(f"Cannot find a node with id={node_id}", code="NodeNotFound")
        stop = _send_away(db, [row], DeallocationOption.REQUEUE)
        (target,) = db.execute("SELECT target FROM cluster WHERE key = ?", (cluster.key,)).fetchone()
        resize(db, cluster.key, target, DeallocationOption.REQUEUE)
    return stop


def cluster_guid(store: Store, node_id: str) -> str:
    """The folder name of the cluster that a node belongs to."""
    query = "SELECT cluster.guid FROM node JOIN cluster ON cluster.key = node.cluster WHERE node.id = ?"
    with store.read() as db:
        return str(db.execute(query, (node_id,)).fetchone()["guid"])


def counts(db: sqlite3.Connection, key: str) -> NodeStateCounts:
    """How many nodes of a cluster are in each state, now."""
    rows = db.execute("SELECT state, count(*) FROM node WHERE cluster = ? GROUP BY state", (key,)).fetchall()
    found = dict(tuple(row) for row in rows)
    return NodeStateCounts(**{f"{state.value}_node_count": found.get(state.value, 0) for state in NodeState})
