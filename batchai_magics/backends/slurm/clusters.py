"""Clusters: which of Slurm's nodes are theirs, what each of those does, and where their jobs may run."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.service import private_files
from batchai_magics.backends.slurm import showing
from batchai_magics.backends.slurm.answers import Answers
from batchai_magics.backends.slurm.partitions import choice, demands, scaling
from batchai_magics.backends.slurm.preparing import setups
from batchai_magics.backends.slurm.records import Record, Records
from batchai_magics.backends.slurm.runs import Placement, Runs
from batchai_magics.backends.slurm.settings import FIXED, SlurmSettings
from batchai_magics.backends.slurm.standing import Standing
from batchai_magics.backends.slurm.understand import NodeLine, node_state
from batchai_magics.errors import Problem, SpecError
from batchai_magics.models.cluster import ClusterSpec, ScaleSettings
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.job import JobSpec
from batchai_magics.models.resources import Node
from batchai_magics.models.slurm_options import OF_CLUSTERS, OF_FIXED, OWN, slurm_values, slurm_words
from batchai_magics.models.states import NodeState


@dataclass(frozen=True)
class OpenRun:
    """A run that has not ended: its job, and where it stands."""

    job: Record
    standing: Standing

    @property
    def nodes(self) -> list[Node]:
        """The nodes that belong to it now."""
        return showing.nodes(self.job.resource_id, self.standing)


class Clusters:
    """The clusters of a home."""

    def __init__(
        self, layout: Layout, records: Records, runs: Runs, answers: Answers, settings: SlurmSettings
    ) -> None:
        self._layout, self._records, self._runs = layout, records, runs
        self._answers, self._settings = answers, settings

    # -- what a cluster stands on

    def foundation(self, spec: ClusterSpec, others: Sequence[Record]) -> dict[str, Any]:
        """What is written down of a new cluster beside its description; SpecError for what Slurm has not."""
        options = self._settings.options_of_size(spec.vm_size)
        partition, _ = self._partition(spec)
        lines = self._lines(partition)
        name, count = lines[0].partition, scaling.most_nodes(spec.scale_settings)
        scaling.check(spec.scale_settings, name, self._answers.configuration)
        if problems := demands.problems(options, lines, 0, field="properties.vmSize"):
            raise SpecError(problems, what=spec.what)
        taken = [node for record in others for node in record.more["nodes"]]
        chosen = self._chosen(lines, [], count, taken)
        return {
            "partition": name,
            "options": shlex.join(options),
            "core_count": min(line.cores for line in lines),
            "limit": lines[0].limit,
            "target": count,
            "nodes": chosen,
            "leaving": [],
            "changed": self._answers.clock.now(),
        }

    def _partition(self, spec: ClusterSpec) -> tuple[str, str]:
        """The partition that the settings name for a cluster (maybe none), and the setting that does."""
        by_size = slurm_values(self._settings.options_of_size(spec.vm_size)).get("partition", "")
        return (by_size, "slurm.sizes") if by_size else (self._settings.partition, "slurm.partition")

    def other_partition(self, cluster: Record) -> str:
        """What is to be said of a cluster of another partition than the settings name; mostly nothing."""
        wanted, setting = self._partition(showing.cluster_spec(cluster.spec))
        own, name = cluster.more["partition"], cluster.resource_id.name
        if wanted in ("", own):
            return ""
        return (
            f"The cluster {name} is of the partition {own}, where its jobs go, and {setting} says {wanted}:"
            f" to use {wanted}, make another cluster, or delete this one and create it again"
        )

    def check(self, cluster: Record, spec: JobSpec) -> None:
        """Raises a SpecError for what a job may not ask, or what its partition cannot give it."""
        field, own = "properties.batchaiSlurm", spec.batchai_slurm or ""
        try:
            words = slurm_words(own, {**OWN, **OF_CLUSTERS, **(OF_FIXED if self._is_fixed else {})})
        except ValueError as error:
            raise SpecError([Problem(field, str(error))], what=spec.what) from None
        lines, general = self._lines(cluster.more["partition"]), shlex.split(self._settings.options)
        found = demands.problems(words, lines, spec.node_count, field=field)
        if found := found or demands.problems(general, lines, 0, field="slurm.options"):
            raise SpecError(found, what=spec.what)

    def resized(
        self, cluster: Record, scale: ScaleSettings, *, busy: Mapping[str, Node], others: Sequence[Record]
    ) -> dict[str, Any]:
        """What is written down of a cluster that is to have so many nodes; idle ones go first."""
        lines, count = self._lines(cluster.more["partition"]), scaling.most_nodes(scale)
        scaling.check(scale, cluster.more["partition"], self._answers.configuration)
        nodes = cluster.more["nodes"]
        taken = [node for record in others for node in record.more["nodes"]]
        staying = sorted(nodes, key=lambda name: (name not in busy, nodes.index(name)))[:count]
        chosen = self._chosen(lines, [name for name in nodes if name in staying], count, taken)
        leaving = {*nodes, *cluster.more["leaving"]} & {*busy} - {*chosen}
        if not self._is_fixed:
            leaving = choice.of_too_large(busy, count)
        changed = self._answers.clock.now()
        return {"target": count, "nodes": chosen, "leaving": sorted(leaving), "changed": changed}

    def placement(self, cluster: Record) -> Placement:
        """Where the jobs of a cluster may run."""
        if not self._is_fixed:
            return Placement((), cluster.more["target"])
        names = dict.fromkeys(line.name for line in self._lines(cluster.more["partition"]))
        return Placement(
            tuple(name for name in names if name not in cluster.more["nodes"]), cluster.more["target"]
        )

    # -- its jobs

    def together(self, clusters: Collection[Record]) -> AbstractContextManager[None]:
        """Within it, these clusters may be read as they were when it began, but for their jobs."""
        folders = [self._open_file(cluster.guid, "").parent for cluster in clusters]
        folders += [setups.folder(self._layout, cluster.guid) for cluster in clusters]
        return self._records.machine.together(folders, self._answers.files if clusters else ())

    def enter(self, cluster_guid: str, job: Record) -> None:
        """Notes that a cluster has a run that has not ended."""
        private_files.write(self._open_file(cluster_guid, job.guid), job.id)

    def leave(self, cluster_guid: str, job: Record) -> None:
        """Notes that it has it no longer."""
        self._open_file(cluster_guid, job.guid).unlink(missing_ok=True)

    def open_runs(self, cluster_guid: str) -> list[OpenRun]:
        """The runs of a cluster that have not ended, those submitted first before the others."""
        folder = self._open_file(cluster_guid, "").parent
        with self._records.machine.together([folder]):
            files = {file.stem: file for file in folder.glob("*.id")}
            jobs = self._records.find_all([id for file in files.values() if (id := _id_in(file))])
            own = [job for job in jobs if job.guid in files]
            with self._runs.together(own):
                found = [run for job in own if (run := self._open_run(files[job.guid], job))]
        return sorted(found, key=lambda run: run.job.mark)

    def all_open_runs(self) -> Iterable[OpenRun]:
        """The runs of all clusters that have not ended."""
        for folder in self._layout.clusters.glob("*"):
            yield from self.open_runs(folder.name)

    # -- its nodes

    def nodes(self, cluster: Record) -> list[tuple[Node, str]]:
        """The nodes of a cluster, each with why it cannot be used, if it cannot."""
        busy = self.busy(cluster.guid)
        more = cluster.more
        lines = {line.name: line for line in self._lines(more["partition"])}
        names, leaving = self._own(more, lines, busy)
        asleep = scaling.asleep(showing.cluster_spec(cluster.spec), lines.values()) - {*busy}
        shown = [name for name in names if name not in asleep]
        found = (self._node(name, busy, lines, is_leaving=name in leaving) for name in shown)
        return [(node, reason) for node, reason in found if node.job or node.id not in leaving]

    def _own(
        self, more: Mapping[str, Any], lines: Mapping[str, NodeLine], busy: Mapping[str, Node]
    ) -> tuple[list[str], Collection[str]]:
        """The names of a cluster's nodes, and of those that are to leave it."""
        if self._is_fixed:
            return [*more["nodes"], *more["leaving"]], more["leaving"]
        return choice.seen(lines, busy, more["target"]), choice.of_too_large(busy, more["target"])

    def has_node(self, cluster: Record, name: str) -> bool:
        """Whether a node is one of a cluster's: any of its partition, where it has none of its own."""
        if self._is_fixed:
            return name in (node.id for node, _ in self.nodes(cluster))
        return name in (line.name for line in self._lines(cluster.more["partition"]))

    def busy(self, cluster_guid: str) -> dict[str, Node]:
        """The nodes that belong to the cluster's jobs now, by name."""
        return {node.id: node for run in self.open_runs(cluster_guid) for node in run.nodes}

    @property
    def _is_fixed(self) -> bool:
        return self._settings.placement == FIXED

    def _node(
        self, name: str, busy: Mapping[str, Node], lines: Mapping[str, NodeLine], *, is_leaving: bool
    ) -> tuple[Node, str]:
        if name in busy:
            return (replace(busy[name], state=NodeState.LEAVING) if is_leaving else busy[name]), ""
        if name not in lines:
            return Node(name, NodeState.UNUSABLE), "it is no longer in the partition"
        line = lines[name]
        state = node_state(line.state)
        reason = f"Slurm says {line.state}: {line.reason}" if state is NodeState.UNUSABLE else ""
        return Node(name, state, ip_address=name), reason

    def _open_run(self, file: Path, job: Record) -> OpenRun | None:
        standing = self._runs.settle(job)
        if standing.is_open:
            return OpenRun(job, standing)
        file.unlink(missing_ok=True)
        return None

    def _open_file(self, cluster_guid: str, job_guid: str) -> Path:
        return self._layout.cluster(cluster_guid) / "open" / f"{job_guid}.id"

    def _lines(self, partition: str) -> list[NodeLine]:
        return choice.lines_of(partition, self._answers.nodes())

    def _chosen(
        self, lines: Sequence[NodeLine], own: Sequence[str], count: int, taken: Sequence[str]
    ) -> list[str]:
        """The nodes that a new or resized cluster keeps to, where it has nodes of its own."""
        chosen = choice.chosen(lines, own, count, taken)
        return chosen if self._is_fixed else []


def _id_in(file: Path) -> ResourceId | None:
    try:
        return ResourceId.parse(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
