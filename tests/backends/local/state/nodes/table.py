"""The table of nodes: rows put there, and all that are there."""

from __future__ import annotations

from batchai_magics.backends.local.state.node_table import NodeRow
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.states import NodeState
from tests.backends.local.still import Still

NOW = 1_767_323_045.0  # 2026-01-02 03:04:05 UTC
PREPARING, IDLE, RUNNING, LEAVING, UNUSABLE = (
    NodeState.PREPARING,
    NodeState.IDLE,
    NodeState.RUNNING,
    NodeState.LEAVING,
    NodeState.UNUSABLE,
)


def put(still: Still, cluster: ResourceId, *rows: tuple[object, ...]) -> list[NodeRow]:
    """Nodes as (id, ordinal, state, since, and what else a row has); gives them."""
    made = []
    for id, ordinal, state, since, *rest in rows:
        row = NodeRow(id, cluster.key, ordinal, state, since, *rest)
        values = row._asdict() | {"state": state.value}
        still.change(f"INSERT INTO node VALUES ({', '.join('?' * len(values))})", *values.values())
        made.append(row)
    return made


def table(still: Still) -> list[NodeRow]:
    """All nodes, in the order of their ids."""
    rows = still.rows("SELECT * FROM node ORDER BY id")
    return [NodeRow(**{**row, "state": NodeState(row["state"])}) for row in map(dict, rows)]


def guid_of(still: Still, cluster: ResourceId) -> str:
    (row,) = still.rows("SELECT guid FROM cluster WHERE key = ?", cluster.key)
    return row["guid"]


def spec_of(still: Still, cluster: ResourceId) -> str:
    (row,) = still.rows("SELECT spec FROM resource WHERE key = ?", cluster.key)
    return row["spec"]


def other(still: Still) -> ResourceId:
    return still.workspace.child(still.workspace.kind.CLUSTER, "other")
