"""The job bundle: what a job's first node runs, with references that it resolves.

The nodes are allocated by Slurm, and free ports are known only on the first node, so plans are written with
references to nodes, addresses and ports.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.node.job_environment import free_ports
from batchai_magics.backends.node.ranks.temporary_folder import ROOT, TMPDIR
from batchai_magics.backends.slurm.node import scratch
from batchai_magics.launch.plan import Plan
from batchai_magics.launch.references import Bindings
from batchai_magics.untrusted_files import MAX_PLAN_BYTES, read_json


class JobBundle(NamedTuple):
    """The plans of a job and of its cluster's setup task (empty: none), as JSON."""

    plan: str
    mpi: str  # the value of `srun --mpi`
    programs: str  # the folder of the programs
    home: str = ""  # the folder that containers see
    setup: str = ""
    setups: str = ""  # the folder that records on which nodes the setup task has run
    setup_secrets: str = ""  # the file with its secrets, which may be missing
    scratch: str = ""  # the scratch folder on nodes' own disks; may contain variables of the nodes
    scratch_limit_bytes: int = 0  # how much of it is collected, per node

    def to_json(self) -> str:
        """The JSON that is written to the file."""
        return json.dumps(self._asdict())

    @classmethod
    def read(cls, file: Path) -> JobBundle:
        """Reads a job bundle."""
        return cls(**read_json(file, MAX_PLAN_BYTES))

    def resolved(self, plan: Plan, guid: str, nodes: Sequence[str], addresses: Sequence[str]) -> Plan:
        """One of the plans, or a smaller one, for these nodes, with free ports of the current one."""
        base = scratch.base(self.scratch, guid, nodes[0])
        bindings = Bindings(nodes, addresses, free_ports(plan.port_count), base)
        return plan.resolved(bindings).changed(lambda part: self._on_nodes(part, bindings))

    def _on_nodes(self, plan: Plan, bindings: Bindings) -> Plan:
        tmpdir = os.environ.get(TMPDIR) or ROOT
        plan = plan._replace(nodes=tuple(node._replace(tmpdir=tmpdir) for node in plan.nodes))
        if not plan.containers.image:
            return plan
        from batchai_magics.backends.node import containers  # few jobs need it

        own = [bindings.scratch] if bindings.scratch else []
        return containers.in_containers(plan, [Path(folder) for folder in (self.home, *own)])
