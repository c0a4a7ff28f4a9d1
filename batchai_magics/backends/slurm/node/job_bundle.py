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
from batchai_magics.backends.node.preflight import SmallerPlans
from batchai_magics.backends.node.ranks.temporary_folder import ROOT, TMPDIR
from batchai_magics.backends.slurm.node import scratch
from batchai_magics.launch.plan import Plan
from batchai_magics.launch.references import Bindings
from batchai_magics.untrusted_files import MAX_PLAN_BYTES, read_json


class Plans(NamedTuple):
    """The plans of a job bundle with all references resolved."""

    processes: Plan
    preparation: Plan | None
    setup: Plan | None


class JobBundle(NamedTuple):
    """The plans of a job's processes, its preparation and its cluster's setup task, as JSON.

    The plans of missing kinds are empty.
    """

    plan: str
    preparation: str
    node_count: int
    port_count: int
    mpi: str  # the value of `srun --mpi`
    programs: str  # the folder of the programs
    home: str = ""  # the folder that containers see
    setup: str = ""
    setups: str = ""  # the folder that records on which nodes the setup task has run
    setup_secrets: str = ""  # the file with its secrets, which may be missing
    is_setup_elevated: bool = False
    scratch: str = ""  # the scratch folder on nodes' own disks; may contain variables of the nodes
    scratch_limit_bytes: int = 0  # how much of it is collected, per node

    def to_json(self) -> str:
        """The JSON that is written to the file."""
        return json.dumps(self._asdict())

    @classmethod
    def read(cls, file: Path) -> JobBundle:
        """Reads a job bundle."""
        return cls(**read_json(file, MAX_PLAN_BYTES))

    def resolved(self, guid: str, nodes: Sequence[str], addresses: Sequence[str]) -> Plans:
        """The plans for these nodes, with free ports of the current one."""
        base = scratch.base(self.scratch, guid, nodes[0])
        bindings = Bindings(nodes, addresses, free_ports(self.port_count), base)
        preparation = self._resolved(self.preparation, bindings) if self.preparation else None
        setup = self._resolved(self.setup, bindings) if self.setup else None
        return Plans(self._resolved(self.plan, bindings), preparation, setup)

    def smaller(self, plans: SmallerPlans) -> JobBundle:
        """The bundle with the plans for some of the nodes."""
        return self._replace(plan=plans.plan, preparation=plans.preparation)

    def _resolved(self, text: str, bindings: Bindings) -> Plan:
        plan = Plan.from_json(text).resolved(bindings)
        tmpdir = os.environ.get(TMPDIR) or ROOT
        plan = plan._replace(nodes=tuple(node._replace(tmpdir=tmpdir) for node in plan.nodes))
        if not plan.containers.image:
            return plan
        from batchai_magics.backends.node import containers  # few jobs need it

        own = [bindings.scratch] if bindings.scratch else []
        return containers.in_containers(plan, [Path(folder) for folder in (self.home, *own)])
