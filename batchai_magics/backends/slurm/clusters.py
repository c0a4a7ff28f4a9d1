"""Clusters on Slurm: which nodes of a partition they use, their status, and where their jobs may run."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.service.runner import (
    CORE_COUNT,
    ClusterRef,
    ClusterRequest,
    ClusterWarning,
    EngineState,
    NodeStatus,
    RunRequest,
)
from batchai_magics.backends.slurm import partitions
from batchai_magics.backends.slurm.parse import NodeLine, node_state
from batchai_magics.backends.slurm.queries import QueryCache
from batchai_magics.backends.slurm.runs import Placement
from batchai_magics.backends.slurm.settings import (
    FIXED,
    OF_CLUSTERS,
    OF_FIXED,
    OWN,
    SBATCH,
    SlurmSettings,
    slurm_values,
    slurm_words,
)
from batchai_magics.errors import Problem, SpecError
from batchai_magics.models.states import NodeState

SILENT = "SlurmUnavailable"  # the code of a warning


class SlurmClusters:
    """The nodes of clusters, derived from Slurm's partitions."""

    def __init__(self, layout: Layout, queries: QueryCache, settings: SlurmSettings) -> None:
        self._layout, self._queries, self._settings = layout, queries, settings

    def state_of(self, request: ClusterRequest, before: ClusterRef | None) -> EngineState:
        """The engine state of a new or resized cluster; SpecError if Slurm cannot provide it."""
        return self._resized(before, request) if before else self._initial_state(request)

    def _initial_state(self, request: ClusterRequest) -> EngineState:
        options = self._settings.options_of_size(request.vm_size)
        partition, _ = self._partition(request.vm_size)
        lines = self._lines(partition)
        name, count = lines[0].partition, request.scale.maximum
        partitions.check_auto_scale(request.scale, name, self._queries.configuration)
        if problems := partitions.option_problems(options, lines, 0, field="properties.vmSize"):
            raise SpecError(problems, what=request.what)
        return {
            "partition": name,
            "options": shlex.join(options),
            CORE_COUNT: min(line.cores for line in lines),
            "limit": lines[0].limit,
            "target": count,
            "nodes": self._chosen(lines, [], count, _taken(request.others)),
            "leaving": [],
        }

    def _partition(self, vm_size: str) -> tuple[str, str]:
        """The partition that the settings map a VM size to (possibly empty), and the setting that decides."""
        by_size = slurm_values(self._settings.options_of_size(vm_size)).get("partition", "")
        return (by_size, "slurm.sizes") if by_size else (self._settings.partition, "slurm.partition")

    def warnings(self, cluster: ClusterRef) -> list[ClusterWarning]:
        """Warnings if the settings now name another partition, and if Slurm does not answer."""
        messages = {
            "PartitionDiffers": self.partition_warning(cluster),
            SILENT: self._queries.silence("nodes"),
        }
        return [ClusterWarning(code, message) for code, message in messages.items() if message]

    def partition_warning(self, cluster: ClusterRef) -> str:
        """A warning if the settings now name another partition than the cluster's; normally empty."""
        wanted, setting = self._partition(cluster.vm_size)
        own, name = cluster.state["partition"], cluster.name
        if wanted in ("", own):
            return ""
        return (
            f"The cluster {name} is of the partition {own}, where its jobs go, and {setting} says {wanted}:"
            f" to use {wanted}, make another cluster, or delete this one and create it again"
        )

    def _resized(self, cluster: ClusterRef, request: ClusterRequest) -> EngineState:
        """The engine state of a resized cluster; idle nodes are removed first."""
        busy = request.busy
        partition, count = cluster.state["partition"], request.scale.maximum
        lines = self._lines(partition)
        partitions.check_auto_scale(request.scale, partition, self._queries.configuration)
        nodes = cluster.state["nodes"]
        staying = sorted(nodes, key=lambda name: (name not in busy, nodes.index(name)))[:count]
        own = [name for name in nodes if name in staying]
        chosen = self._chosen(lines, own, count, _taken(request.others))
        leaving = {*nodes, *cluster.state["leaving"]} & {*busy} - {*chosen}
        if not self._is_fixed:
            leaving = partitions.oversized_nodes(busy, count)
        return {"target": count, "nodes": chosen, "leaving": sorted(leaving)}

    def check(self, cluster: ClusterRef, request: RunRequest) -> None:
        """Raises a SpecError for options that a job must not set, or that its partition cannot satisfy."""
        text = request.backend_options.get(SBATCH.name, "")
        try:
            words = slurm_words(text, {**OWN, **OF_CLUSTERS, **(OF_FIXED if self._is_fixed else {})})
        except ValueError as error:
            raise SpecError([Problem(SBATCH.field, str(error))], what=request.what) from None
        lines = self._lines(cluster.state["partition"])
        problems = partitions.option_problems(words, lines, request.node_count, field=SBATCH.field)
        general = shlex.split(self._settings.options)
        if problems := problems or partitions.option_problems(general, lines, 0, field="slurm.options"):
            raise SpecError(problems, what=request.what)

    def placement(self, cluster: ClusterRef) -> Placement:
        """Where the jobs of a cluster may run."""
        size, own = cluster.state["target"], cluster.state["nodes"]
        if not self._is_fixed:
            return Placement((), size)
        names = dict.fromkeys(line.name for line in self._lines(cluster.state["partition"]))
        return Placement(tuple(name for name in names if name not in own), size)

    def nodes(self, cluster: ClusterRef, busy: Mapping[str, str]) -> list[NodeStatus]:
        """The nodes of a cluster; `busy` maps a node to the guid of the run on it."""
        lines = {line.name: line for line in self._lines(cluster.state["partition"])}
        names, leaving = self._node_names(cluster.state, lines, busy)
        asleep = partitions.sleeping_nodes(cluster.scale, lines.values()) - {*busy}
        shown = [name for name in names if name not in asleep and (name in busy or name not in leaving)]
        return [
            _status(name, lines.get(name), is_busy=name in busy, is_leaving=name in leaving) for name in shown
        ]

    def has_node(self, cluster: ClusterRef, name: str, busy: Mapping[str, str]) -> bool:
        """Whether a node belongs to a cluster; without fixed placement, any node of its partition does."""
        if self._is_fixed:
            return name in (node.name for node in self.nodes(cluster, busy))
        return name in (line.name for line in self._lines(cluster.state["partition"]))

    def _node_names(
        self, state: EngineState, lines: Mapping[str, NodeLine], busy: Mapping[str, str]
    ) -> tuple[list[str], Collection[str]]:
        """The names of a cluster's nodes, and of those that are leaving it."""
        if self._is_fixed:
            return [*state["nodes"], *state["leaving"]], state["leaving"]
        return partitions.visible_nodes(lines, busy, state["target"]), partitions.oversized_nodes(
            busy, state["target"]
        )

    @property
    def _is_fixed(self) -> bool:
        return self._settings.placement == FIXED

    def _lines(self, partition: str) -> list[NodeLine]:
        return partitions.lines_of(partition, self._queries.nodes())

    def _chosen(
        self, lines: Sequence[NodeLine], own: Sequence[str], count: int, taken: Sequence[str]
    ) -> list[str]:
        """The nodes assigned to a new or resized cluster; empty without fixed placement."""
        chosen = partitions.choose_nodes(lines, own, count, taken)
        return chosen if self._is_fixed else []


def _taken(others: Sequence[EngineState]) -> list[str]:
    return [node for state in others for node in state["nodes"]]


def _status(name: str, line: NodeLine | None, *, is_busy: bool, is_leaving: bool) -> NodeStatus:
    if is_busy:
        return NodeStatus(name, NodeState.LEAVING if is_leaving else NodeState.RUNNING, address=name)
    if line is None:
        return NodeStatus(name, NodeState.UNUSABLE, "it is no longer in the partition")
    state = node_state(line.state)
    reason = f"Slurm says {line.state}: {line.reason}" if state is NodeState.UNUSABLE else ""
    return NodeStatus(name, state, reason, address=name)
