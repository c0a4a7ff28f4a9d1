"""Setup tasks of clusters: each job brings its cluster's along, for nodes that are not set up yet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from batchai_magics.backends.folders import mounts, outputs
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.service import private_files, refusals
from batchai_magics.backends.slurm import showing
from batchai_magics.backends.slurm.node.node_setups import NodeSetups, problem
from batchai_magics.backends.slurm.records import Record, Records
from batchai_magics.launch.nodes import NodeShare
from batchai_magics.launch.plan import Plan, Process
from batchai_magics.launch.planning import setup
from batchai_magics.launch.references import joined
from batchai_magics.models.cluster import ClusterSpec, SetupTask
from batchai_magics.models.execution import OutputFile
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.resources import Node
from batchai_magics.models.states import NodeState


def plan(
    layout: Layout, guid: str, spec: ClusterSpec, names: Sequence[str], *, python: str, exits: Path
) -> Plan | None:
    """The setup task of a cluster on nodes of these names, a process each; None where it has none.

    The names may be references.
    """
    task, asked = _task(spec), spec.node_setup
    if not (task and asked):
        return None
    root, logs = str(layout.mounts(guid)), str(mounts.setup_logs(layout, spec))
    shares = [NodeShare(name, 0, root, root, joined([str(layout.nodes(guid)), "/", name])) for name in names]
    plans = [setup(asked, share, python=python, exits=str(exits), logs=logs) for share in shares]
    secrets = tuple(item.name for item in task.secrets or ())
    return _as_one(plans, task.command_line)._replace(guid=guid, secrets=secrets)


def _as_one(plans: Sequence[Plan], command_line: str) -> Plan:
    """The plans of some nodes as one, with a process on each."""
    processes = [Process(rank, rank, command_line, output=each.output) for rank, each in enumerate(plans)]
    nodes = [node for each in plans for node in each.nodes]
    return plans[0]._replace(nodes=tuple(nodes), processes=tuple(processes))


def is_elevated(spec: ClusterSpec) -> bool:
    """Whether the setup task of a cluster is to run as root."""
    task = _task(spec)
    return bool(task and task.run_elevated)


def check(layout: Layout, spec: ClusterSpec) -> None:
    """Raises a SpecError for a setup task whose output is to be on no mount."""
    if _task(spec):
        mounts.setup_logs(layout, spec)


def begin(layout: Layout, guid: str, spec: ClusterSpec) -> None:
    """Makes the folder of the task's output, and keeps its secrets in a file that only their owner reads."""
    task = _task(spec)
    if task is None:
        return
    private_files.make_folder(mounts.setup_logs(layout, spec))
    values = {item.name: item.value.get_secret_value() for item in task.secrets or () if item.value}
    if values:
        private_files.write(secrets_file(layout, guid), json.dumps(values))


def secrets_file(layout: Layout, guid: str) -> Path:
    """The values of the secrets of a cluster's setup task; only there while the cluster is."""
    return layout.cluster(guid) / "setup-secrets.json"


def folder(layout: Layout, guid: str) -> Path:
    """What became of the setup task on each node."""
    return layout.cluster(guid) / "setup"


def problems(layout: Layout, cluster: Record) -> dict[str, str]:
    """Why nodes are not set up on which the task has failed, by name."""
    found = NodeSetups(folder(layout, cluster.guid)).all()
    return {name: problem(name, record) for name, record in found.items() if record.exit_code}


def marked(found: Sequence[tuple[Node, str]], problems: Mapping[str, str]) -> list[tuple[Node, str]]:
    """The nodes of a cluster, each with why it cannot be used: one whose setup has failed is unusable."""
    return [
        (replace(node, state=NodeState.UNUSABLE), problems[node.id])
        if node.id in problems and node.job is None
        else (node, reason)
        for node, reason in found
    ]


class SetupLogs:
    """What setup tasks wrote to mounted shares."""

    def __init__(self, layout: Layout, records: Records) -> None:
        self._layout, self._records = layout, records

    def files(self, cluster: ResourceId, path: str = "", *, expiry_min: int = 60) -> Sequence[OutputFile]:
        """One level of what a cluster's setup task wrote, sorted by name."""
        spec = showing.cluster_spec(self._records.get(cluster).spec)
        if not _task(spec):
            raise refusals.no_setup_logs()
        return outputs.listing(mounts.setup_logs(self._layout, spec), path)


def _task(spec: ClusterSpec) -> SetupTask | None:
    return spec.node_setup.setup_task if spec.node_setup else None
