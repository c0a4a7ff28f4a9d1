"""Clusters on Slurm: which nodes of a partition they use, their status, and where their jobs may run.

The checks of options and of auto-scale compare a request with what Slurm reports of a partition.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.service.runner import (
    CORE_COUNT,
    ClusterRef,
    ClusterRequest,
    ClusterWarning,
    EngineState,
    NodeStatus,
    Scale,
)
from batchai_magics.backends.slurm.parse import NodeLine, minutes, node_state
from batchai_magics.backends.slurm.queries import QueryCache
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
from batchai_magics.errors import CapabilityError, ConflictError, Problem, SpecError, did_you_mean
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.states import NodeState

SILENT = "SlurmUnavailable"  # the code of a warning


class Placement(NamedTuple):
    """The nodes on which a cluster's jobs may not run, and the size of the largest job that may start."""

    excluded: tuple[str, ...]
    size: int

    def is_held(self, node_count: int) -> bool:
        """Whether a job of this size has to wait for the cluster to grow."""
        return node_count > self.size


class SlurmClusters:
    """The nodes of clusters, derived from Slurm's partitions."""

    def __init__(self, layout: Layout, queries: QueryCache, settings: SlurmSettings) -> None:
        self._layout, self._queries, self._settings = layout, queries, settings

    def state_of(self, request: ClusterRequest, before: ClusterRef | None) -> EngineState:
        """The engine state of a new or resized cluster; SpecError if Slurm cannot provide it."""
        if before:
            return self._resized(before, request)
        options = self._settings.options_of_size(request.vm_size)
        partition, _ = self._partition(request.vm_size)
        lines = self._lines(partition)
        name, count = lines[0].partition, request.scale.maximum
        check_auto_scale(request.scale, name, self._queries.configuration)
        if problems := option_problems(options, lines, 0, field="properties.vmSize"):
            raise SpecError(problems, what=request.what)
        return {
            "partition": name,
            "options": shlex.join(options),
            CORE_COUNT: min(line.cores for line in lines),
            "limit": lines[0].limit,
            "target": count,
            "nodes": self._chosen(lines, [], count, _nodes_of(request.others)),
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
        configured, setting = self._partition(cluster.vm_size)
        partition, name = cluster.state["partition"], cluster.name
        if configured in ("", partition):
            return ""
        return (
            f"The cluster {name} is of the partition {partition}, where its jobs go, and {setting} says"
            f" {configured}: to use {configured}, make another cluster, or delete this one and create it"
            " again"
        )

    def _resized(self, cluster: ClusterRef, request: ClusterRequest) -> EngineState:
        """The engine state of a resized cluster; idle nodes are removed first."""
        busy = request.busy
        partition, count = cluster.state["partition"], request.scale.maximum
        lines = self._lines(partition)
        check_auto_scale(request.scale, partition, self._queries.configuration)
        nodes = cluster.state["nodes"]
        busy_first = sorted(nodes, key=lambda name: (name not in busy, nodes.index(name)))
        staying_nodes = [name for name in nodes if name in busy_first[:count]]
        chosen = self._chosen(lines, staying_nodes, count, _nodes_of(request.others))
        leaving = {*nodes, *cluster.state["leaving"]} & {*busy} - {*chosen}
        if not self._is_fixed:
            leaving = oversized_nodes(busy, count)
        return {"target": count, "nodes": chosen, "leaving": sorted(leaving)}

    def check(self, cluster: ClusterRef, job: JobSpec, text: str) -> None:
        """Raises a SpecError for options that a job must not set, or that its partition cannot satisfy."""
        try:
            words = slurm_words(text, {**OWN, **OF_CLUSTERS, **(OF_FIXED if self._is_fixed else {})})
        except ValueError as error:
            raise SpecError([Problem(SBATCH.field, str(error))], what=job.what) from None
        lines = self._lines(cluster.state["partition"])
        problems = option_problems(words, lines, job.node_count, field=SBATCH.field)
        general = shlex.split(self._settings.options)
        if problems := problems or option_problems(general, lines, 0, field="slurm.options"):
            raise SpecError(problems, what=job.what)

    def placement(self, cluster: ClusterRef) -> Placement:
        """Where the jobs of a cluster may run."""
        size, own_nodes = cluster.state["target"], cluster.state["nodes"]
        if not self._is_fixed:
            return Placement((), size)
        names = dict.fromkeys(line.name for line in self._lines(cluster.state["partition"]))
        return Placement(tuple(name for name in names if name not in own_nodes), size)

    def nodes(self, cluster: ClusterRef, busy: Mapping[str, str]) -> list[NodeStatus]:
        """The nodes of a cluster; `busy` maps a node to the guid of the run on it."""
        state = cluster.state
        lines = {line.name: line for line in self._lines(state["partition"])}
        if self._is_fixed:
            names, leaving = [*state["nodes"], *state["leaving"]], {*state["leaving"]}
        else:
            names = visible_nodes(lines, busy, state["target"])
            leaving = oversized_nodes(busy, state["target"])
        asleep = sleeping_nodes(cluster.scale, lines.values()) - {*busy}
        shown = [name for name in names if name not in asleep and (name in busy or name not in leaving)]
        return [
            _status(name, lines.get(name), is_busy=name in busy, is_leaving=name in leaving) for name in shown
        ]

    def has_node(self, cluster: ClusterRef, name: str, busy: Mapping[str, str]) -> bool:
        """Whether a node belongs to a cluster; without fixed placement, any node of its partition does."""
        if self._is_fixed:
            return name in (node.name for node in self.nodes(cluster, busy))
        return name in (line.name for line in self._lines(cluster.state["partition"]))

    @property
    def _is_fixed(self) -> bool:
        return self._settings.placement == FIXED

    def _lines(self, partition: str) -> list[NodeLine]:
        return lines_of(partition, self._queries.nodes())

    def _chosen(
        self, lines: Sequence[NodeLine], own_nodes: Sequence[str], count: int, used_by_others: Sequence[str]
    ) -> list[str]:
        """The nodes assigned to a new or resized cluster; empty without fixed placement."""
        chosen = choose_nodes(lines, own_nodes, count, used_by_others)
        return chosen if self._is_fixed else []


def _nodes_of(others: Sequence[EngineState]) -> list[str]:
    return [node for state in others for node in state["nodes"]]


def _status(name: str, line: NodeLine | None, *, is_busy: bool, is_leaving: bool) -> NodeStatus:
    if is_busy:
        return NodeStatus(name, NodeState.LEAVING if is_leaving else NodeState.RUNNING, address=name)
    if line is None:
        return NodeStatus(name, NodeState.UNUSABLE, "it is no longer in the partition")
    state = node_state(line.state)
    reason = f"Slurm says {line.state}: {line.reason}" if state is NodeState.UNUSABLE else ""
    return NodeStatus(name, state, reason, address=name)


_SHOWN_IDLE = (NodeState.IDLE, NodeState.PREPARING, NodeState.LEAVING)


def lines_of(partition: str, lines: Sequence[NodeLine]) -> list[NodeLine]:
    """The nodes of a partition, or of Slurm's default one; SpecError if it does not exist."""
    of_partition = [
        line for line in lines if line.partition == partition or (not partition and line.is_default)
    ]
    if not of_partition:
        known = sorted({line.partition for line in lines})
        text = f"Slurm has no partition {partition!r}" if partition else "Slurm has no default partition"
        fix = did_you_mean(partition, known) or f"slurm.partition may be one of {', '.join(known) or 'none'}"
        raise SpecError([Problem("properties.vmSize", text, fix)], what=ClusterSpec.what)
    return of_partition


def choose_nodes(
    lines: Sequence[NodeLine], own_nodes: Sequence[str], count: int, used_by_others: Sequence[str]
) -> list[str]:
    """Chooses `count` nodes: `own_nodes` first, then those shared with the fewest clusters.

    Raises:
        ConflictError: The partition is too small.
    """
    if count > len(lines):
        text = f"The partition {lines[0].partition} has {len(lines)} nodes, but {count} were requested"
        raise ConflictError(text, code="OperationNotAllowed", hint="Ask for fewer, or set slurm.partition.")
    ranking = {
        line.name: (not line.is_usable, used_by_others.count(line.name), position)
        for position, line in enumerate(lines)
    }
    free = sorted((name for name in ranking if name not in own_nodes), key=lambda name: ranking[name])
    return [*own_nodes, *free][:count]


def oversized_nodes(busy: Mapping[str, str], count: int) -> set[str]:
    """The nodes of runs larger than the target size of a cluster without fixed nodes."""
    sizes = Counter(busy.values())
    return {name for name, run in busy.items() if sizes[run] > count}


def visible_nodes(lines: Mapping[str, NodeLine], busy: Collection[str], target: int) -> list[str]:
    """The nodes shown for a cluster without fixed nodes.

    Those of its jobs, then idle ones up to the target size, then all unusable ones.
    """
    states = {name: node_state(line.state) for name, line in lines.items() if name not in busy}
    idle = [name for name, state in states.items() if state in _SHOWN_IDLE]
    unusable = [name for name, state in states.items() if state is NodeState.UNUSABLE]
    return [*[*busy, *idle][: max(target, len(busy))], *(unusable if target else [])]


_UNITS = {unit: 1024**power for power, unit in enumerate("KMGTP", start=1)}
_FEATURE = re.compile(r"[A-Za-z_][\w.:=-]*")
_GRES = re.compile(
    r"(?P<name>\w+)(?::(?P<kind>[A-Za-z_][\w.-]*))?(?::(?P<count>\d+)(?P<unit>[KMGTP]?))?(?::no_consume)?"
    r"(?:\([^)]*\))?",
    re.IGNORECASE,
)


def option_problems(
    words: Sequence[str], lines: Sequence[NodeLine], node_count: int, *, field: str
) -> list[Problem]:
    """Options that no node of a partition can satisfy; `field` is where they were given."""
    values, name = slurm_values(words), lines[0].partition
    problems = [*_features(values, lines), *_gres(values, lines), *_time(values, lines)]
    shown = [Problem(field, text.format(partition=name), fix) for text, fix in problems]
    job_size = lines[0].job_size
    match = re.fullmatch(r"\d+-(\d+)", job_size) or re.fullmatch(r"(\d+)", job_size)
    most = int(match[1]) if match else None
    if most is not None and node_count > most:
        text = f"the partition {name} allows {most} nodes per job, but {node_count} were requested"
        shown.append(Problem("properties.nodeCount", text, "Ask for fewer, or use another partition."))
    return shown


def _features(values: Mapping[str, str], lines: Sequence[NodeLine]) -> Iterator[tuple[str, str]]:
    """A problem for each feature in `--constraint` that no node has."""
    known = sorted({feature for line in lines for feature in _entries(line.features)})
    expression = re.sub(r"\*\d+", "", values.get("constraint", ""))  # remove counts: `[rack1*2&rack2*4]`
    requested = dict.fromkeys(_FEATURE.findall(expression))
    if "|" in expression and not requested.keys().isdisjoint(known):
        return  # any alternative suffices
    for feature in requested:
        if feature not in known:
            guess = did_you_mean(feature, known) or _known("features", known)
            yield f"--constraint: no node of the partition {{partition}} has the feature {feature}", guess


def _gres(values: Mapping[str, str], lines: Sequence[NodeLine]) -> Iterator[tuple[str, str]]:
    """A problem for each resource of `--gres` and similar options that no single node has enough of."""
    known = sorted({resource for line in lines for resource in _entries(line.gres)})
    for option, prefix in (("gres", ""), ("gpus-per-node", "gpu:"), ("gpus-per-task", "gpu:")):
        for entry in _entries(values.get(option, "").replace("gres/", "").replace("gres:", "")):
            requested = _GRES.fullmatch(f"{prefix}{entry}")
            if requested and not any(_has_gres(line, requested) for line in lines):
                text = f"--{option}: no node of the partition {{partition}} has {entry}"
                yield text, _known("generic resources", known)


def _has_gres(line: NodeLine, requested: re.Match[str]) -> bool:
    """Whether a node has enough of a resource."""
    resources = [match for entry in _entries(line.gres) if (match := _GRES.fullmatch(entry))]
    counts = [
        _count(resource)
        for resource in resources
        if resource["name"] == requested["name"] and requested["kind"] in (None, resource["kind"])
    ]
    return _count(requested) <= sum(counts)


def _count(match: re.Match[str]) -> int:
    unit: int = _UNITS.get((match["unit"] or "").upper(), 1)
    return int(match["count"] or 1) * unit


def _time(values: Mapping[str, str], lines: Sequence[NodeLine]) -> Iterator[tuple[str, str]]:
    limit, requested = minutes(lines[0].limit), _asked_minutes(values.get("time", ""))
    if limit is not None and requested is not None and requested > limit:
        yield f"--time: the partition {{partition}} allows jobs {lines[0].limit} at most", "Ask for less."


def _asked_minutes(text: str) -> int | None:
    """The minutes in `--time`, which may be a plain number of minutes or `days-hours`."""
    if text.isdigit():
        return int(text)
    days = re.fullmatch(r"(\d+)-(\d+)", text)
    if days:
        return (int(days[1]) * 24 + int(days[2])) * 60
    hours = re.fullmatch(r"(\d+)-(\d+):(\d+)", text)
    return minutes(f"{text}:00" if hours else text)


def _entries(text: str) -> list[str]:
    """Splits a list printed by sinfo. Commas in brackets do not separate; `(null)` counts as empty."""
    entries = re.split(r",(?![^()\[\]]*[)\]])", text)
    return [entry.strip() for entry in entries if entry.strip() not in ("", "(null)", "N/A", "none")]


def _known(noun: str, names: Sequence[str]) -> str:
    return f"Its {noun}: {', '.join(names) or 'none'}."


_FIELD = "properties.scaleSettings.autoScale"
_FIXED = "Give the cluster a fixed number of nodes; nothing was written."
_PROGRAMS = ("ResumeProgram", "SuspendProgram")


def check_auto_scale(scale: Scale, partition: str, ask: Callable[[], Mapping[str, str]]) -> None:
    """Raises a CapabilityError for auto-scale that a partition does not support.

    `ask` returns Slurm's configuration.
    """
    if not scale.is_auto:
        return
    configuration = ask()
    if any(configuration.get(name, "(null)") in ("", "(null)") for name in _PROGRAMS):
        reason = f"Slurm starts and stops no nodes here ({' and '.join(_PROGRAMS)} are not set)"
        raise _unsupported(_FIELD, reason)
    if partition in configuration.get("SuspendExcParts", "").split(","):
        raise _unsupported(
            _FIELD, f"Slurm never stops the nodes of the partition {partition} (SuspendExcParts)"
        )
    for name in ("minimum", "initial"):
        if getattr(scale, name):
            field = f"{_FIELD}.{name}NodeCount"
            raise _unsupported(field, "Slurm starts nodes for jobs alone, and stops them when they are idle")


def sleeping_nodes(scale: Scale, lines: Iterable[NodeLine]) -> set[str]:
    """The nodes hidden by an auto-scaled cluster: those powered down."""
    return {line.name for line in lines if is_asleep(line)} if scale.is_auto else set()


def is_asleep(line: NodeLine) -> bool:
    """Whether a node is powered down until a job needs it, and costs nothing."""
    return "~" in line.state or line.state.lower().startswith("powered_down")


def _unsupported(field: str, reason: str) -> CapabilityError:
    return CapabilityError(
        f"{field} is not supported by this partition: {reason}", code="NotSupported", hint=_FIXED
    )
