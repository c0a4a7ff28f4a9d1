"""Setup tasks of clusters: each job brings its cluster's along, for nodes that are not set up yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.service.runner import NodeStatus
from batchai_magics.backends.slurm.node.node_setups import FAILED, NodeSetups, problem
from batchai_magics.models.states import NodeState


def secrets_file(layout: Layout, guid: str) -> Path:
    """The values of the secrets of a cluster's setup task; only there while the cluster is."""
    return layout.cluster(guid) / "setup-secrets.json"


def folder(layout: Layout, guid: str) -> Path:
    """What became of the setup task on each node."""
    return layout.cluster(guid) / "setup"


def problems(layout: Layout, cluster_guid: str) -> dict[str, str]:
    """Why nodes are not set up on which the task has failed, by name."""
    found = NodeSetups(folder(layout, cluster_guid)).all()
    return {name: problem(name, record) for name, record in found.items() if record.exit_code}


def marked(
    nodes: Sequence[NodeStatus], problems: Mapping[str, str], busy: Collection[str]
) -> list[NodeStatus]:
    """The nodes of a cluster: an idle one whose setup has failed is unusable."""
    return [
        node._replace(state=NodeState.UNUSABLE, reason=problems[node.name], code=FAILED)
        if node.name in problems and node.name not in busy
        else node
        for node in nodes
    ]
