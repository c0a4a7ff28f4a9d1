"""What a job's first node is told to do. It resolves what was not known when the job was submitted.

Which nodes a job gets is Slurm's to say, and which ports are free is known on the first of them alone. The
plans are made before, with references to nodes, addresses and ports.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.node.ports import free_ports
from batchai_magics.backends.slurm.node import scratch
from batchai_magics.launch.plan import Plan
from batchai_magics.launch.references import Bindings


class Plans(NamedTuple):
    """What an order's nodes run, with all references resolved."""

    processes: Plan
    preparation: Plan | None
    setup: Plan | None


class JobBundle(NamedTuple):
    """The plans of a job's processes, of its preparation and of its cluster's setup task, and how ranks meet.

    A plan is empty where there is nothing of the kind.
    """

    plan: str
    preparation: str
    node_count: int
    port_count: int
    mpi: str  # what srun's option of that name is given
    programs: str  # the folder of the programs
    home: str = ""  # the folder that containers see
    setup: str = ""
    setups: str = ""  # the folder that tells on which nodes the setup task has been run
    setup_secrets: str = ""  # the file of its secrets, which may not be there
    is_setup_elevated: bool = False
    scratch: str = ""  # the folder on nodes' own disks that the job runs in; it may name their variables
    scratch_limit_bytes: int = 0  # how much of it is kept, of each node

    def to_json(self) -> str:
        """The order as it is written to a file."""
        return json.dumps(self._asdict())

    @classmethod
    def read(cls, file: Path) -> JobBundle:
        """The order in a file."""
        return cls(**json.loads(file.read_text(encoding="utf-8")))

    def resolved(self, guid: str, nodes: Sequence[str], addresses: Sequence[str]) -> Plans:
        """The plans for these nodes, with free ports of this one."""
        base = scratch.base(self.scratch, guid, nodes[0])
        bindings = Bindings(nodes, addresses, free_ports(self.port_count), base)
        preparation = self._resolved(self.preparation, bindings) if self.preparation else None
        setup = self._resolved(self.setup, bindings) if self.setup else None
        return Plans(self._resolved(self.plan, bindings), preparation, setup)

    def _resolved(self, text: str, bindings: Bindings) -> Plan:
        plan = Plan.from_json(text).resolved(bindings)
        tmpdir = os.environ.get("TMPDIR", "/tmp")
        plan = plan._replace(nodes=tuple(node._replace(tmpdir=tmpdir) for node in plan.nodes))
        if not plan.containers.image:
            return plan
        from batchai_magics.backends.node import containers  # few jobs need it

        own = [bindings.scratch] if bindings.scratch else []
        return containers.in_containers(plan, [Path(folder) for folder in (self.home, *own)])
