"""How many nodes and processes a launcher's options ask for. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from batchai_magics.cell.launchers import LauncherSyntax
from batchai_magics.errors import UsageError


@dataclass(frozen=True)
class JobCounts:
    """The numbers of a job; 0: not given. `gpus` of a node are None if unknown."""

    nodes: int = 0
    processes: int = 0
    gpus: int | None = None


@dataclass
class LauncherCounts:
    """The numbers that a launcher's options give; 0: not given.

    Attributes:
        nodes: The number of nodes.
        processes: Processes on each node, or of all nodes; None: one per GPU.
        per_node: Processes on each node beside a total number.
        hosts: The hosts, with their slots; 0: not said.
        chosen: The hosts that are chosen among them, with the number of chosen slots; 0: all.
    """

    nodes: int = 0
    processes: int | None = 0
    per_node: int = 0
    hosts: Mapping[str, int] = field(default_factory=dict)
    chosen: Mapping[str, int] = field(default_factory=dict)

    def for_job(self, launcher: LauncherSyntax, asked: JobCounts) -> JobCounts:
        """The job's numbers; those that it asks for itself replace the launcher's.

        Raises:
            UsageError: The hosts have different numbers of slots, or the line leaves the number open.
        """
        slots = self._slots()
        nodes = self.nodes or len(self.chosen or self.hosts)
        if launcher.is_total:
            total = self.processes or slots * len(self.hosts)
            nodes = self._nodes_for(total, slots) or nodes
        else:
            each = self.processes or slots or launcher.default_processes or 0
            each = 0 if self.processes is None else each
            total = each * (asked.nodes or nodes or 1)
        if launcher.needs_count and not (total or asked.processes):
            raise UsageError("the number of processes is missing", hint="Write -np N.")
        return JobCounts(asked.nodes or nodes, asked.processes or total)

    def _nodes_for(self, total: int, slots: int) -> int:
        """The nodes that take a total number of processes, if the line says how many each takes."""
        per_node = self.per_node or slots
        if per_node and not self.nodes:
            return math.ceil(total / per_node)
        return min(self.nodes or len(self.hosts), total) if self.hosts else 0

    def _slots(self) -> int:
        """The slots of each host; 0 if they are not said."""
        hosts = {name: count or self.hosts.get(name, 0) for name, count in self.chosen.items()} or self.hosts
        slots = set(list(hosts.values())[: self.nodes or None])
        if len(slots) > 1:
            listed = ", ".join(f"{name} {count}" for name, count in hosts.items())
            hint = "All nodes of a job have the same number: write --nodes and --processes of `batchai run`."
            raise UsageError(f"the hosts have different numbers of slots: {listed}", hint=hint)
        return slots.pop() if slots else 0
